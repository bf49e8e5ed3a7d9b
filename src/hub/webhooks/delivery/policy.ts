/** What an attempt's outcome makes of its delivery: the specification's table of answers, and the retry schedule. Pure. */
import type { Outcome, PendingDelivery, RunMs } from '../parts.ts';

/** A delivery after an attempt. */
export type Next =
  | { readonly state: 'retrying'; readonly dueRunMs: RunMs }
  | { readonly state: 'delivered' | 'rejected' | 'failed' };

/** What an attempt says of who was called. answered: 4xx, final for this delivery, and yet a sign of life. */
export type ResponseClass = 'accepted' | 'answered' | 'failed';

const msPerS = 1_000;

/** An answer in time that accepts has no cause; one that came too late has the cause timeout, whatever its status was. */
export function responseClassOf({ cause, status }: Outcome): ResponseClass {
  if (cause === '') return 'accepted';
  return cause === 'http' && status !== undefined && status >= 400 && status < 500 ? 'answered' : 'failed';
}

/**
 * `scheduleS`: seconds before attempt 1, 2, ..., each counted from the end of the attempt before. Where the list was made
 * shorter while a delivery waited, its next attempt is its last.
 */
export function nextOf(
  { attempts, attemptsBefore }: Pick<PendingDelivery, 'attempts' | 'attemptsBefore'>,
  outcome: Outcome,
  endedRunMs: RunMs,
  scheduleS: readonly number[],
): Next {
  const sign = responseClassOf(outcome);
  if (sign === 'accepted') return { state: 'delivered' };
  if (sign === 'answered') return { state: 'rejected' };
  const delayS = scheduleS[attempts - attemptsBefore + 1];
  return delayS === undefined ? { state: 'failed' } : { state: 'retrying', dueRunMs: endedRunMs + delayS * msPerS };
}
