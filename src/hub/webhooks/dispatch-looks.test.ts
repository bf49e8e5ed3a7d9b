import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Looks } from './dispatch-looks.ts';

function looksOf(...ids: readonly number[]): Looks {
  const looks = new Looks();
  assert.deepEqual(looks.keep(ids), ids);
  return looks;
}

test('a new one is looked at at once, one that is not kept never', () => {
  const looks = looksOf(1, 2);
  assert.deepEqual([looks.isDue(1, 0), looks.isDue(3, 1e12)], [true, false]);
  assert.deepEqual(looks.keep([2, 3]), [3]);
  assert.deepEqual([looks.isDue(1, 1e12), looks.isDue(3, 0)], [false, true]);
});

test('after it was read it is looked at when something is due, however often it is told of what is due later', () => {
  const looks = looksOf(1, 2);
  looks.from(1, 5_000);
  looks.from(2, Number.POSITIVE_INFINITY);
  looks.notLaterThan(1, 9_000);
  assert.deepEqual([looks.isDue(1, 4_999), looks.isDue(1, 5_000), looks.isDue(2, 1e12)], [false, true, false]);
  assert.equal(looks.nextAfter(0), 5_000);
  assert.equal(looks.nextAfter(5_000), Number.POSITIVE_INFINITY);
  looks.notLaterThan(2, 3_000);
  assert.equal(looks.nextAfter(0), 3_000);
});

test('one that cannot be read is tried after 1, 2, 4, ... 60 s, and after a success after 1 s again', () => {
  const looks = looksOf(1);
  const waits = Array.from({ length: 8 }, () => {
    looks.failed(1, 1_000);
    return (looks.nextAfter(1_000) - 1_000) / 1_000;
  });
  assert.deepEqual(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
  looks.all();
  assert.equal(looks.isDue(1, 1_000), false, 'also when all others are looked at');
  looks.succeeded(1);
  looks.failed(1, 1_000);
  assert.equal(looks.nextAfter(1_000), 2_000);
  looks.succeeded(1);
  looks.all();
  assert.equal(looks.isDue(1, 0), true);
});
