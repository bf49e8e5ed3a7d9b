/**
 * Who may begin an attempt now. Subscriptions take turns, and one that does not answer holds so few places, and all of
 * those together so few, that the others never wait for it. Pure.
 */
import type { ResponseClass } from './policy.ts';

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
  ended(id: number, sign: ResponseClass | 'void'): void {
    this.#change(id, (standing) => {
      standing.inFlight--;
      if (sign === 'void') return;
      standing.unproven = false;
      standing.halfOpen = sign === 'failed';
      if (sign === 'failed') standing.ramp = firstRamp;
      if (sign === 'accepted') standing.ramp = Math.min(subscriptionLimit, standing.ramp * 2);
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
