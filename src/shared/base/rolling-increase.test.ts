import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RollingIncrease } from './rolling-increase.ts';

test('a rise is that of its window; the first look counts for nothing, and a counter that fell began again', () => {
  const rise = new RollingIncrease(300_000);
  rise.note(1_000, 0);
  assert.equal(rise.within(0), 0);
  rise.note(1_003, 10_000);
  rise.note(1_003, 20_000);
  rise.note(1_004, 30_000);
  assert.equal(rise.within(30_000), 4);
  rise.note(2, 40_000);
  assert.equal(rise.within(40_000), 6);
  assert.equal(rise.within(309_999), 6);
  assert.equal(rise.within(310_000), 3);
  assert.equal(rise.within(339_999), 2);
  assert.equal(rise.within(340_000), 0);
});

test('looks that come fast are kept together: nothing is lost, and no more than sixty-one are held', () => {
  const rise = new RollingIncrease(60_000);
  let counted = 0;
  for (let ms = 0; ms <= 60_000; ms += 100) rise.note((counted += 1), ms);
  assert.ok(Math.abs(rise.within(60_000) - 600) <= 10, String(rise.within(60_000)));
});
