/** What is stored of an attempt, as values. Pure. */
import type { Instant } from '../../../shared/base/instant.ts';
import { failedOutcome, type Outcome } from '../egress/outcome.ts';
import type { RunMs } from '../progress.ts';
import type { AfterRow, AttemptRow, PendingDelivery } from './delivery-rows.ts';
import { nextOf } from './schedule.ts';

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

/** A sender has broken its promise never to reject. The attempt counts, so that a permanent fault does not repeat for ever. */
export function rejectedSender(error: string, elapsedMs: number): Outcome {
  const failure = {
    cause: 'connect',
    message: `the attempt was aborted: ${error}`,
    reasons: [],
    unreached: false,
  } as const;
  return failedOutcome(failure, undefined, elapsedMs);
}
