import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { DispatchCounts } from './delivery-counts.ts';
import type { Counts, DispatchRows } from './delivery-rows.ts';
import { settled } from './dispatcher.fixture.ts';

interface Counted {
  readonly clock: FakeClock;
  readonly counts: DispatchCounts;
  readonly failures: unknown[];
  stored: Counts | undefined;
  times: number;
}

/** `stored` is what the file has; undefined: it cannot be read. */
function counted(): Counted {
  const clock = new FakeClock();
  const failures: unknown[] = [];
  const rows: Pick<DispatchRows, 'counts'> = {
    counts() {
      made.times++;
      if (made.stored === undefined) throw new Error('disk I/O error');
      return made.stored;
    },
  };
  const counts = new DispatchCounts({ rows, clock, onUnreadable: (error) => failures.push(error) });
  const made: Counted = { clock, counts, failures, stored: { waiting: 7, rejected: 2, failed: 1 }, times: 0 };
  return made;
}

test('while others change much in slices they are counted once a second', async () => {
  const made = counted();
  made.counts.count();
  made.clock.advance(1_000);
  for (let slice = 0; slice < 100; slice++) {
    made.counts.stale();
    await settled();
    made.clock.advance(50);
  }
  assert.equal(made.times, 7, 'at the start, and at seconds 1 to 6');
  made.stored = { waiting: 0, rejected: 0, failed: 0 };
  made.counts.stale();
  made.clock.advance(1_000);
  await settled();
  assert.equal(made.counts.now.waiting, 0);
});

test('what could not be counted is as it was, and is counted when that is repaired', async () => {
  const made = counted();
  made.counts.count();
  made.counts.repair();
  made.clock.advance(2_000);
  await settled();
  assert.equal(made.times, 1, 'nothing was wrong');
  const before = made.stored;
  made.stored = undefined;
  made.counts.stale();
  await settled();
  assert.equal(made.failures.length, 1);
  assert.deepEqual(made.counts.now, before);
  made.stored = { waiting: 3, rejected: 0, failed: 0 };
  made.clock.advance(60_000);
  made.counts.repair();
  await settled();
  assert.equal(made.counts.now.waiting, 3);
});

test('nothing is counted after stop', async () => {
  const made = counted();
  made.counts.stale();
  made.counts.stop();
  made.counts.stale();
  await settled();
  made.clock.advance(10_000);
  assert.equal(made.times, 0);
});
