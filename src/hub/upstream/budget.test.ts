import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Budget } from './budget.ts';

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

test('no 24 h of running hold more than the budget, over any number of restarts', () => {
  const steps = fc.array(
    fc.record({ laterMs: fc.nat(6 * HOUR), bytes: fc.integer({ min: 1, max: 400 }), restart: fc.boolean() }),
    { maxLength: 80 },
  );
  fc.assert(
    fc.property(steps, (all) => {
      let budget = new Budget(1_000, undefined, 0);
      let [ranMs, nowMs] = [0, 0];
      const sent: [number, number][] = [];
      for (const { laterMs, bytes, restart } of all) {
        ranMs += laterMs;
        nowMs += laterMs;
        if (restart) {
          const saved = JSON.parse(JSON.stringify(budget.save(nowMs))) as ReturnType<Budget['save']>;
          // The clock of another process, after some time that the box was off.
          nowMs = 77;
          budget = new Budget(1_000, saved, nowMs);
        }
        if (budget.left(nowMs) < bytes) continue;
        budget.charge(bytes, nowMs);
        sent.push([ranMs, bytes]);
        const day = sent.reduce((sum, [atMs, one]) => (atMs > ranMs - DAY ? sum + one : sum), 0);
        assert.ok(day <= 1_000, `${day} bytes in 24 h`);
      }
    }),
  );
});

test('what was spent an hour more than a day ago is free again', () => {
  const budget = new Budget(1_000, undefined, 0);
  budget.charge(900, 0);
  assert.deepEqual([budget.left(0), budget.left(DAY), budget.left(DAY + HOUR)], [100, 100, 1_000]);
  budget.charge(300, DAY + HOUR);
  assert.equal(budget.used(DAY + HOUR), 300);
});

test('what was charged after all is over it leaves nothing, and no less', () => {
  const budget = new Budget(1_000, undefined, 0);
  budget.charge(1_500, 0);
  assert.equal(budget.left(0), 0);
});

test('without a limit there is always room, and it is counted all the same', () => {
  const budget = new Budget(0, undefined, 0);
  budget.charge(1_500, 0);
  assert.deepEqual([budget.left(0), budget.used(0)], [Number.POSITIVE_INFINITY, 1_500]);
});
