import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import fc from 'fast-check';
import { Budget, MIN_BYTES, Pace } from './link-limits.ts';

const MAX_BYTES = 256 * 1024;

/** A link of so many bytes a second: batches as the pace has them, one after the other. Answers the time that each took. */
function drain(pace: Pace, bytesPerS: number, roundTripMs: number, batches: number, ratio = 1): number[] {
  const took: number[] = [];
  for (let n = 0; n < batches; n++) {
    const bytes = pace.batchBytes;
    const ms = roundTripMs + (bytes * ratio * 1_000) / bytesPerS;
    took.push(ms);
    pace.arrived(bytes, bytes * ratio, ms);
  }
  return took;
}

describe('the size of batches', () => {
  for (const [what, bytesPerS, roundTripMs] of [
    ['64 kbit/s', 8_000, 600],
    ['128 kbit/s', 16_000, 300],
    ['1 Mbit/s', 125_000, 50],
  ] as const) {
    it(`at ${what} each is soon on the link for about a second, from either side`, () => {
      const pace = new Pace(0, MAX_BYTES, 0);
      const took = drain(pace, bytesPerS, roundTripMs, 30);
      assert.ok(Math.max(...took) < 3_000, `${Math.max(...took)} ms`);
      // The link slows down to a quarter.
      const slow = drain(pace, bytesPerS / 4, roundTripMs, 30);
      assert.ok(Math.max(...slow.slice(5)) < 3_500, slow.join());
    });
  }

  it('those that do not arrive are followed by smaller ones, never below the least', () => {
    const pace = new Pace(0, MAX_BYTES, 0);
    drain(pace, 10_000_000, 5, 10);
    pace.failed();
    assert.equal(pace.batchBytes, MAX_BYTES / 2);
    for (let n = 0; n < 30; n++) pace.failed();
    assert.equal(pace.batchBytes, MIN_BYTES);
  });

  it('a cap has them cost a second of it, as compression goes', () => {
    const pace = new Pace(64, MAX_BYTES, 0);
    drain(pace, 10_000_000, 5, 40, 0.5);
    assert.ok(pace.batchBytes > 14_000 && pace.batchBytes <= 16_100, `${pace.batchBytes}`);
  });
});

describe('the cap', () => {
  it('holds from the first byte on, whatever is sent when: never more than the time has brought, and a second', () => {
    const sends = fc.array(fc.tuple(fc.integer({ min: 1, max: 60_000 }), fc.nat(20_000)), { minLength: 1 });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10_000 }), sends, (kbitPerS, all) => {
        const bytesPerMs = kbitPerS / 8;
        const pace = new Pace(kbitPerS, MAX_BYTES, 0);
        let nowMs = 0;
        let sent = 0;
        for (const [cost, laterMs] of all) {
          nowMs += laterMs;
          for (let wait = pace.waitMs(cost, nowMs); wait > 0; wait = pace.waitMs(cost, nowMs)) nowMs += wait;
          pace.spent(cost, nowMs);
          sent += cost;
          assert.ok(sent <= nowMs * bytesPerMs + 0.001, `${sent} bytes within ${nowMs} ms`);
        }
      }),
    );
  });

  it('is not held up by small expenses while a batch saves up for more than a second of it', () => {
    const pace = new Pace(8, MAX_BYTES, 0);
    let nowMs = 0;
    for (let wait = pace.waitMs(5_000, nowMs); wait > 0; wait = pace.waitMs(5_000, nowMs)) {
      nowMs += 100;
      pace.spent(1, nowMs);
      assert.ok(nowMs < 6_000, 'there is never an allowance');
    }
  });

  it('bytes that were spent without permission are compensated', () => {
    const pace = new Pace(8, MAX_BYTES, 0);
    pace.spent(5_000, 0);
    assert.equal(pace.waitMs(1_000, 0), 6_000);
  });
});

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

test('bytes that were spent 25 hours ago are free again', () => {
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
