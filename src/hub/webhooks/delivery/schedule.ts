/**
 * When deliveries are attempted: the retry schedule, with the specification's table of answers; whose turn it is among the
 * subscriptions; until when a subscription need not be read. Pure.
 */
import { backoffMs } from '../../../shared/base/backoff.ts';
import type { Outcome } from '../egress/outcome.ts';
import type { RunMs } from '../progress.ts';
import type { PendingDelivery } from './delivery-rows.ts';

/** A delivery after an attempt. */
export type Next =
  | { readonly state: 'retrying'; readonly dueRunMs: RunMs }
  | { readonly state: 'delivered' | 'rejected' | 'failed' };

/** What an attempt says of the subscriber. answered: 4xx, final for this delivery, and yet a sign of life. */
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
  const response = responseClassOf(outcome);
  if (response === 'accepted') return { state: 'delivered' };
  if (response === 'answered') return { state: 'rejected' };
  const delayS = scheduleS[attempts - attemptsBefore + 1];
  return delayS === undefined ? { state: 'failed' } : { state: 'retrying', dueRunMs: endedRunMs + delayS * msPerS };
}

/** Attempts under way in all: each may hold a connection, and a body of some MiB. */
export const overallLimit = 16;
/** Of one subscription: what a subscriber's four connections take. */
export const subscriptionLimit = 4;
/** Of all suspects together: half the places are always free of them. */
export const halfOpenLimit = 8;
/** One that has just come back, or is not known yet, begins with this many, and has twice as many with each acceptance. */
const firstRamp = 1;

interface Standing {
  inFlight: number;
  /** How many it may have under way. */
  ramp: number;
  /** Its last attempt failed without a final answer: one at a time until one is answered. */
  halfOpen: boolean;
  /** Nothing is known of it since the start. */
  unproven: boolean;
}

/**
 * Subscriptions take turns, and one that does not answer holds so few places, and all of those together so few, that the
 * others never wait for it.
 */
export class FairScheduler {
  /** In the order of their turns. */
  #ids: readonly number[] = [];
  readonly #standings = new Map<number, Standing>();
  /** Whose turn it was last. */
  #last = -1;
  #inFlight = 0;
  #halfOpenInFlight = 0;

  get inFlight(): number {
    return this.#inFlight;
  }

  inFlightOf(id: number): number {
    return this.#standings.get(id)?.inFlight ?? 0;
  }

  /** Who takes turns from now on, ascending. One that is left out is forgotten when its attempts have ended. */
  keep(ids: readonly number[]): void {
    this.#ids = ids;
    const kept = new Set(ids);
    for (const [id, { inFlight }] of this.#standings) if (!kept.has(id) && inFlight === 0) this.#standings.delete(id);
  }

  mayStart(id: number): boolean {
    const { inFlight, ramp, halfOpen } = this.#of(id);
    if (this.#inFlight >= overallLimit) return false;
    return halfOpen ? inFlight === 0 && this.#halfOpenInFlight < halfOpenLimit : inFlight < ramp;
  }

  /** The next in turn that may begin one and wants to. The turn passes on when it has begun. */
  next(wants: (id: number) => boolean): number | undefined {
    const after = this.#ids.findIndex((id) => id > this.#last);
    const first = after === -1 ? 0 : after;
    for (let n = 0; n < this.#ids.length; n++) {
      const id = this.#ids[(first + n) % this.#ids.length];
      if (id !== undefined && this.mayStart(id) && wants(id)) return id;
    }
    return undefined;
  }

  started(id: number): void {
    this.#last = id;
    this.#change(id, (standing) => standing.inFlight++);
  }

  /** 'void': it says nothing of the subscription (given up by us, or there was no route). */
  ended(id: number, response: ResponseClass | 'void'): void {
    this.#change(id, (standing) => {
      standing.inFlight--;
      if (response === 'void') return;
      standing.unproven = false;
      standing.halfOpen = response === 'failed';
      if (response === 'failed') standing.ramp = firstRamp;
      if (response === 'accepted') standing.ramp = Math.min(subscriptionLimit, standing.ramp * 2);
    });
  }

  /** What it has waiting was tried in vain before the start: it need not be found out again in one of the others' places. */
  markHalfOpen(id: number): void {
    this.#change(id, (standing) => {
      if (standing.unproven) standing.halfOpen = true;
    });
  }

  /** Back from where nothing could be reached: all begin with one, so that a week's backlog is no stampede. */
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

  #change(id: number, change: (standing: Standing) => void): void {
    const standing = this.#of(id);
    this.#count(standing, -1);
    change(standing);
    this.#count(standing, 1);
  }

  #count({ inFlight, halfOpen }: Standing, sign: 1 | -1): void {
    this.#inFlight += sign * inFlight;
    if (halfOpen) this.#halfOpenInFlight += sign * inFlight;
  }
}

interface NextDue {
  /** 0: at once. Infinity: nothing waits. */
  fromRunMs: RunMs;
  /** Readings that failed in a row. */
  failures: number;
}

const firstRetryMs = 1_000;
const longestRetryMs = 60_000;

/** Of each subscription, until when nothing of it need be looked for: so that an idle one costs no reading. */
export class NextDueCache {
  readonly #nextDue = new Map<number, NextDue>();

  /** Answers those that are new. */
  keep(ids: readonly number[]): readonly number[] {
    const kept = new Set(ids);
    for (const id of this.#nextDue.keys()) if (!kept.has(id)) this.#nextDue.delete(id);
    const added = ids.filter((id) => !this.#nextDue.has(id));
    for (const id of added) this.#nextDue.set(id, { fromRunMs: 0, failures: 0 });
    return added;
  }

  isDue(id: number, runMs: RunMs): boolean {
    return (this.#nextDue.get(id)?.fromRunMs ?? Number.POSITIVE_INFINITY) <= runMs;
  }

  /** It was read: nothing of it is due before then. */
  from(id: number, fromRunMs: RunMs): void {
    const reload = this.#nextDue.get(id);
    if (reload !== undefined) reload.fromRunMs = fromRunMs;
  }

  /** Reading and all that follows from it. */
  succeeded(id: number): void {
    const reload = this.#nextDue.get(id);
    if (reload !== undefined) reload.failures = 0;
  }

  /** Something of it is due then, and perhaps other things before. */
  notLaterThan(id: number, runMs: RunMs): void {
    const reload = this.#nextDue.get(id);
    if (reload !== undefined) reload.fromRunMs = Math.min(reload.fromRunMs, runMs);
  }

  failed(id: number, runMs: RunMs): void {
    const reload = this.#nextDue.get(id);
    if (reload !== undefined) reload.fromRunMs = runMs + backoffMs(reload.failures++, firstRetryMs, longestRetryMs);
  }

  all(): void {
    for (const reload of this.#nextDue.values()) if (reload.failures === 0) reload.fromRunMs = 0;
  }

  /** Infinity: none. */
  nextAfter(runMs: RunMs): RunMs {
    let next = Number.POSITIVE_INFINITY;
    for (const { fromRunMs } of this.#nextDue.values()) if (fromRunMs > runMs && fromRunMs < next) next = fromRunMs;
    return next;
  }
}
