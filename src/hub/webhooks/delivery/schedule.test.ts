import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Outcome } from '../egress/outcome.ts';
import type { Cause } from '../face.ts';
import { nextOf } from './schedule.ts';

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
