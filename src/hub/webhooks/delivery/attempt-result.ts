/** What is stored of an attempt, as values. Pure. */
import type { Instant } from '../../../shared/base/instant.ts';
import type { Outcome, PendingDelivery, RunMs } from '../parts.ts';
import type { AfterRow, AttemptRow } from './delivery-rows.ts';
import { nextOf } from './policy.ts';

export interface AttemptResult {
  readonly delivery: PendingDelivery;
  readonly attempt: AttemptRow;
  readonly after: AfterRow;
  /** False: nothing was called, the attempt only says why. */
  readonly called: boolean;
}

/** A moment by the wall clock, and by the running time, which alone is counted with. */
export interface Moment {
  readonly at: Instant;
  readonly runMs: RunMs;
}

export function attemptResultOf(
  delivery: PendingDelivery,
  outcome: Outcome,
  began: Instant,
  ended: Moment,
  scheduleS: readonly number[],
): AttemptResult {
  const { elapsedMs, status = null, cause, message, answer } = outcome;
  const next = nextOf(delivery, outcome, ended.runMs, scheduleS);
  const waits = next.state === 'retrying';
  return {
    delivery,
    attempt: { at: began, elapsedMs, status, cause, message, answer: cause === '' ? Buffer.alloc(0) : answer },
    after: {
      state: next.state,
      dueRunMs: waits ? next.dueRunMs : delivery.dueRunMs,
      endedAt: waits ? null : ended.at,
      endedRunMs: waits ? null : ended.runMs,
    },
    called: true,
  };
}

/**
 * Of a delivery that cannot be sent, which no retry repairs (its events are gone): it is for review as failed, and why is said
 * where reviewers look, in an attempt. Of the causes "connect" is the one for which nothing has left the device.
 */
export function undeliverable(delivery: PendingDelivery, unavailable: string, { at, runMs }: Moment): AttemptResult {
  return {
    delivery,
    attempt: {
      at,
      elapsedMs: 0,
      status: null,
      cause: 'connect',
      message: `nothing was sent: ${unavailable}`,
      answer: Buffer.alloc(0),
    },
    after: { state: 'failed', dueRunMs: delivery.dueRunMs, endedAt: at, endedRunMs: runMs },
    called: false,
  };
}

/** A sender has broken its promise never to reject. The attempt counts, so that a fault that stays does not go on for ever. */
export function truncated(message: string, elapsedMs: number): Outcome {
  return {
    status: undefined,
    cause: 'connect',
    message: `the attempt broke off: ${message}`,
    answer: Buffer.alloc(0),
    elapsedMs,
    reasons: [],
    unreached: false,
  };
}
