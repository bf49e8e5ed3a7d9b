/**
 * The data budget of a day, counted over 24 h of running time: the wall clock may jump, and a box that is off sends nothing.
 * In buckets of an hour, of which 25 count, so that no 24 h hold more than is allowed. Pure.
 */

const HOUR_MS = 3_600_000;
/** The running hour and the 24 before it. */
const HOURS = 25;

export interface SavedBudget {
  /** How long the box has run with it. */
  readonly ranMs: number;
  /** [hour of running, bytes], oldest first. */
  readonly hours: readonly (readonly [number, number])[];
}

export class Budget {
  readonly #limit: number;
  readonly #ranBeforeMs: number;
  readonly #startedMs: number;
  #hours: [number, number][];

  /** `limit`: bytes; 0: none. */
  constructor(limit: number, saved: SavedBudget | undefined, nowMs: number) {
    this.#limit = limit;
    this.#ranBeforeMs = saved?.ranMs ?? 0;
    this.#startedMs = nowMs;
    this.#hours = (saved?.hours ?? []).map(([hour, bytes]) => [hour, bytes]);
  }

  get limit(): number {
    return this.#limit;
  }

  charge(bytes: number, nowMs: number): void {
    if (bytes <= 0) return;
    const hour = this.#hourAt(nowMs);
    const last = this.#hours.at(-1);
    if (last?.[0] === hour) last[1] += bytes;
    else this.#hours.push([hour, bytes]);
    this.#hours = this.#hours.filter(([one]) => one > hour - HOURS);
  }

  used(nowMs: number): number {
    const hour = this.#hourAt(nowMs);
    return this.#hours.reduce((sum, [one, bytes]) => (one > hour - HOURS ? sum + bytes : sum), 0);
  }

  /** Infinite where there is no limit. */
  left(nowMs: number): number {
    return this.#limit === 0 ? Number.POSITIVE_INFINITY : Math.max(0, this.#limit - this.used(nowMs));
  }

  save(nowMs: number): SavedBudget {
    return { ranMs: Math.round(this.#ranMs(nowMs)), hours: this.#hours.map(([hour, bytes]) => [hour, bytes] as const) };
  }

  #ranMs(nowMs: number): number {
    return this.#ranBeforeMs + (nowMs - this.#startedMs);
  }

  #hourAt(nowMs: number): number {
    return Math.floor(this.#ranMs(nowMs) / HOUR_MS);
  }
}
