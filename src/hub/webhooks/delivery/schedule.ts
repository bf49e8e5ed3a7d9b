/**
 * When deliveries are attempted: the retry schedule, with the specification's table of answers; fair scheduling among the
 * subscriptions. Pure.
 */
import type { Outcome } from '../egress/outcome.ts';
import type { RunMs } from '../progress.ts';
import type { PendingDelivery } from './delivery-rows.ts';

/** A delivery after an attempt. */
export type Next =
  | { readonly state: 'retrying'; readonly dueRunMs: RunMs }
  | { readonly state: 'delivered' | 'rejected' | 'failed' };

/** answered: 4xx, final for this delivery; the subscriber is alive. */
export type ResponseClass = 'accepted' | 'answered' | 'failed';

const msPerS = 1_000;

/** An accepting answer in time has no cause; a late answer has the cause timeout, whatever its status. */
export function responseClassOf({ cause, status }: Outcome): ResponseClass {
  if (cause === '') return 'accepted';
  return cause === 'http' && status !== undefined && status >= 400 && status < 500 ? 'answered' : 'failed';
}

/**
 * `scheduleS`: seconds before attempt 1, 2, ..., each from the end of the attempt before. When the list was shortened while
 * a delivery waited, its next attempt is its last.
 */
export function nextOf(
  { attempts, attemptsBefore }: Pick<PendingDelivery, 'attempts' | 'attemptsBefore'>,
  outcome: Outcome,
  endedRunMs: RunMs,
  scheduleS: readonly number[],
): Next {
  const response = responseClassOf(outcome);
  if (response === 'accepted') return { state: 'delivered' };
  if (response === 'answered') return { state: 'rejected' };
  const delayS = scheduleS[attempts - attemptsBefore + 1];
  return delayS === undefined ? { state: 'failed' } : { state: 'retrying', dueRunMs: endedRunMs + delayS * msPerS };
}

/** Attempts under way: each may hold a connection, and a body of some MiB. */
export const overallLimit = 16;
/** For one subscription: a subscriber has four connections. */
export const subscriptionLimit = 4;
/** For all half-open subscriptions together: they never hold more than half of the places. */
export const halfOpenLimit = 8;
/** For a new or recovered subscription; each acceptance doubles it. */
const firstRamp = 1;

interface Standing {
  inFlight: number;
  /** Attempts that it may have under way. */
  ramp: number;
  /** Its last attempt failed without a final answer: one at a time until one is answered. */
  halfOpen: boolean;
  /** Nothing is known of it since the start. */
  unproven: boolean;
}

/** Round robin among subscriptions. Those that do not answer hold so few places that the others never wait for them. */
export class FairScheduler {
  /** In round-robin order. */
  #ids: readonly number[] = [];
  readonly #standings = new Map<number, Standing>();
  /** The subscription that started last. */
  #last = -1;

  /** Ascending. A subscription that is left out is forgotten when its attempts have ended. */
  keep(ids: readonly number[]): void {
    this.#ids = ids;
    const kept = new Set(ids);
    for (const [id, { inFlight }] of this.#standings) if (!kept.has(id) && inFlight === 0) this.#standings.delete(id);
  }

  /** The next subscription that may start an attempt and wants to. started() moves the turn on. */
  next(wants: (id: number) => boolean): number | undefined {
    const standings = [...this.#standings.values()];
    if (inFlightOf(standings) >= overallLimit) return undefined;
    const halfOpenMayStart = inFlightOf(standings.filter(({ halfOpen }) => halfOpen)) < halfOpenLimit;
    const mayStart = ({ inFlight, ramp, halfOpen }: Standing): boolean =>
      halfOpen ? inFlight === 0 && halfOpenMayStart : inFlight < ramp;
    const after = this.#ids.findIndex((id) => id > this.#last);
    const first = after === -1 ? 0 : after;
    for (let n = 0; n < this.#ids.length; n++) {
      const id = this.#ids[(first + n) % this.#ids.length];
      if (id !== undefined && mayStart(this.#of(id)) && wants(id)) return id;
    }
    return undefined;
  }

  started(id: number): void {
    this.#last = id;
    this.#of(id).inFlight++;
  }

  /** 'void': the attempt says nothing about the subscriber (cancelled, or the device is offline). */
  ended(id: number, response: ResponseClass | 'void'): void {
    const standing = this.#of(id);
    standing.inFlight--;
    if (response === 'void') return;
    standing.unproven = false;
    standing.halfOpen = response === 'failed';
    if (response === 'failed') standing.ramp = firstRamp;
    if (response === 'accepted') standing.ramp = Math.min(subscriptionLimit, standing.ramp * 2);
  }

  /** Its waiting deliveries failed before the start, so it begins half-open. */
  markHalfOpen(id: number): void {
    const standing = this.#of(id);
    if (standing.unproven) standing.halfOpen = true;
  }

  /** Online again: each begins with one attempt, so that a week's backlog does not overload the subscribers. */
  restart(): void {
    for (const standing of this.#standings.values()) standing.ramp = firstRamp;
  }

  #of(id: number): Standing {
    const known = this.#standings.get(id);
    if (known !== undefined) return known;
    const standing = { inFlight: 0, ramp: firstRamp, halfOpen: false, unproven: true };
    this.#standings.set(id, standing);
    return standing;
  }
}

function inFlightOf(standings: readonly Standing[]): number {
  return standings.reduce((sum, { inFlight }) => sum + inFlight, 0);
}
