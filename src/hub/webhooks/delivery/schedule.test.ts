import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../egress/outcome.ts';
import type { Cause } from '../face.ts';
import { NextDueCache, nextOf } from './schedule.ts';

const scheduleS = [0, 30, 120, 600];

function outcome(cause: Cause | '', status?: number): Outcome {
  return { cause, status, message: '', answer: Buffer.alloc(0), elapsedMs: 1, reasons: [], unreached: false };
}

const table: readonly (readonly [outcome: Outcome, attempts: number, before: number, next: string])[] = [
  [outcome('', 200), 0, 0, 'delivered'],
  [outcome('', 201), 0, 0, 'delivered'],
  [outcome('', 202), 3, 0, 'delivered'],
  [outcome('', 204), 9, 0, 'delivered'],
  [outcome('http', 400), 0, 0, 'rejected'],
  [outcome('http', 403), 0, 0, 'rejected'],
  [outcome('http', 404), 1, 0, 'rejected'],
  [outcome('http', 408), 0, 0, 'rejected'],
  [outcome('http', 429), 0, 0, 'rejected'],
  [outcome('http', 499), 3, 0, 'rejected'],
  [outcome('http', 500), 0, 0, 'retrying in 30'],
  [outcome('http', 599), 1, 0, 'retrying in 120'],
  [outcome('http', 100), 2, 0, 'retrying in 600'],
  [outcome('http', 203), 0, 0, 'retrying in 30'],
  [outcome('http', 206), 0, 0, 'retrying in 30'],
  [outcome('http', 301), 0, 0, 'retrying in 30'],
  [outcome('http', 304), 0, 0, 'retrying in 30'],
  [outcome('http'), 0, 0, 'retrying in 30'],
  // An answer that came in time by its status alone did not come in time.
  [outcome('timeout', 200), 0, 0, 'retrying in 30'],
  [outcome('timeout', 404), 0, 0, 'retrying in 30'],
  [outcome('timeout'), 2, 0, 'retrying in 600'],
  [outcome('dns'), 0, 0, 'retrying in 30'],
  [outcome('tls'), 0, 0, 'retrying in 30'],
  [outcome('connect'), 0, 0, 'retrying in 30'],
  [outcome('ssrf'), 0, 0, 'retrying in 30'],
  [outcome('http', 503), 3, 0, 'failed'],
  [outcome('ssrf'), 3, 0, 'failed'],
  // The schedule was made shorter meanwhile.
  [outcome('http', 503), 8, 0, 'failed'],
  // Sent again by hand: the schedule begins again.
  [outcome('http', 503), 4, 4, 'retrying in 30'],
  [outcome('http', 503), 6, 4, 'retrying in 600'],
  [outcome('http', 503), 7, 4, 'failed'],
  [outcome('http', 404), 4, 4, 'rejected'],
];

for (const [made, attempts, attemptsBefore, expected] of table) {
  const what = `${made.cause || 'accepted'} ${made.status ?? 'without an answer'}`;
  test(`${what} after ${attempts} attempts, ${attemptsBefore} of them before: ${expected}`, () => {
    const next = nextOf({ attempts, attemptsBefore }, made, 5_000, scheduleS);
    assert.equal(next.state === 'retrying' ? `retrying in ${(next.dueRunMs - 5_000) / 1_000}` : next.state, expected);
  });
}

function nextDueOf(...ids: readonly number[]): NextDueCache {
  const nextDue = new NextDueCache();
  assert.deepEqual(nextDue.keep(ids), ids);
  return nextDue;
}

test('a new subscription is due at once, one that is not kept never', () => {
  const nextDue = nextDueOf(1, 2);
  assert.deepEqual([nextDue.isDue(1, 0), nextDue.isDue(3, 1e12)], [true, false]);
  assert.deepEqual(nextDue.keep([2, 3]), [3]);
  assert.deepEqual([nextDue.isDue(1, 1e12), nextDue.isDue(3, 0)], [false, true]);
});

test('after a read it is due with its next delivery, whatever becomes due later', () => {
  const nextDue = nextDueOf(1, 2);
  nextDue.from(1, 5_000);
  nextDue.from(2, Number.POSITIVE_INFINITY);
  nextDue.notLaterThan(1, 9_000);
  assert.deepEqual([nextDue.isDue(1, 4_999), nextDue.isDue(1, 5_000), nextDue.isDue(2, 1e12)], [false, true, false]);
  assert.equal(nextDue.nextAfter(0), 5_000);
  assert.equal(nextDue.nextAfter(5_000), Number.POSITIVE_INFINITY);
  nextDue.notLaterThan(2, 3_000);
  assert.equal(nextDue.nextAfter(0), 3_000);
});

test('one that cannot be read is tried after 1, 2, 4, ... 60 s, and after a success after 1 s again', () => {
  const nextDue = nextDueOf(1);
  const waits = Array.from({ length: 8 }, () => {
    nextDue.failed(1, 1_000);
    return (nextDue.nextAfter(1_000) - 1_000) / 1_000;
  });
  assert.deepEqual(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
  nextDue.all();
  assert.equal(nextDue.isDue(1, 1_000), false, 'also when all others are read');
  nextDue.succeeded(1);
  nextDue.failed(1, 1_000);
  assert.equal(nextDue.nextAfter(1_000), 2_000);
  nextDue.succeeded(1);
  nextDue.all();
  assert.equal(nextDue.isDue(1, 0), true);
});
