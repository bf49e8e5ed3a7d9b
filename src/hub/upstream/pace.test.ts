import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { LEAST_BYTES, Pace } from './pace.ts';

const MOST = 256 * 1024;

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
      const pace = new Pace(0, MOST, 0);
      const took = drain(pace, bytesPerS, roundTripMs, 30);
      assert.ok(Math.max(...took) < 3_000, `${Math.max(...took)} ms`);
      // The link slows down to a quarter.
      const slow = drain(pace, bytesPerS / 4, roundTripMs, 30);
      assert.ok(Math.max(...slow.slice(5)) < 3_500, slow.join());
    });
  }

  it('on a fast link they are as large as is allowed', () => {
    const pace = new Pace(0, MOST, 0);
    drain(pace, 10_000_000, 5, 10);
    assert.equal(pace.batchBytes, MOST);
  });

  it('those that do not arrive are followed by smaller ones, never below the least', () => {
    const pace = new Pace(0, MOST, 0);
    drain(pace, 10_000_000, 5, 10);
    pace.failed();
    assert.equal(pace.batchBytes, MOST / 2);
    for (let n = 0; n < 30; n++) pace.failed();
    assert.equal(pace.batchBytes, LEAST_BYTES);
  });

  it('a cap has them cost a second of it, as compression goes', () => {
    const pace = new Pace(64, MOST, 0);
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
        const pace = new Pace(kbitPerS, MOST, 0);
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
    const pace = new Pace(8, MOST, 0);
    let nowMs = 0;
    for (let wait = pace.waitMs(5_000, nowMs); wait > 0; wait = pace.waitMs(5_000, nowMs)) {
      nowMs += 100;
      pace.spent(1, nowMs);
      assert.ok(nowMs < 6_000, 'it comes to nothing');
    }
  });

  it('what was spent unasked is made up for', () => {
    const pace = new Pace(8, MOST, 0);
    pace.spent(5_000, 0);
    assert.equal(pace.waitMs(1_000, 0), 6_000);
  });

  it('without one nothing waits', () => {
    const pace = new Pace(0, MOST, 0);
    pace.spent(1_000_000, 0);
    assert.equal(pace.waitMs(1_000_000, 0), 0);
  });
});
