/**
 * What may be sent: a cap (a bucket of tokens, which are there before anything is sent), the size of batches, such that the link
 * carries one in about a second and a change event never waits longer behind one, and a data budget for each day. Pure.
 */

/** Before anything is known of the link: a second of 64 kbit/s. */
const FIRST_BYTES = 8 * 1024;
/** The least: below it the overhead of the protocols would be most of the batch. */
export const MIN_BYTES = 4 * 1024;
/** A batch that took less may be followed by one of twice its size, */
const SHORT_MS = 500;
/** one that took more by one of half. */
const LONG_MS = 1_500;
/** Of a batch so small that most of it is overhead of the protocols. */
const MAX_RATIO = 2;
/** A second of the cap may be saved up. */
const SAVED_MS = 1_000;
/** ... or what a larger batch needs and this: small expenses come in between. */
const SPARE_MS = 200;
/** kbit/s in bytes a millisecond. */
const BYTES_PER_MS = 0.125;

export class Pace {
  /** Bytes a millisecond; 0: no cap. */
  readonly #rate: number;
  readonly #mostBytes: number;
  #bytes: number;
  #tokens = 0;
  #most: number;
  #filledMs: number;
  /** Bytes of a batch a millisecond, as it was of late. */
  #carried = 0;
  /** Bytes on the link for each byte of a batch, as it was of late; at first nothing is known of what compression does. */
  #ratio = 1;

  constructor(kbitPerS: number, mostBytes: number, nowMs: number) {
    this.#rate = kbitPerS * BYTES_PER_MS;
    this.#most = this.#rate * SAVED_MS;
    this.#mostBytes = mostBytes;
    this.#bytes = Math.min(FIRST_BYTES, mostBytes);
    this.#filledMs = nowMs;
  }

  /** Bytes of the next batch, uncompressed. */
  get batchBytes(): number {
    if (this.#rate === 0) return this.#bytes;
    return Math.max(Math.min(MIN_BYTES, this.#mostBytes), Math.min(this.#bytes, (this.#rate * 1_000) / this.#ratio));
  }

  waitMs(cost: number, nowMs: number): number {
    if (this.#rate === 0) return 0;
    this.#most = Math.max(this.#rate * SAVED_MS, cost + this.#rate * SPARE_MS);
    this.#fill(nowMs);
    return this.#tokens >= cost ? 0 : Math.ceil((cost - this.#tokens) / this.#rate);
  }

  /** So many bytes of batches are on the link for a short time only: a change event does not wait long behind them. */
  carries(bytes: number): boolean {
    return bytes <= this.#carried * SHORT_MS;
  }

  spent(cost: number, nowMs: number): void {
    if (this.#rate === 0) return;
    this.#fill(nowMs);
    this.#tokens -= cost;
  }

  arrived(bytes: number, cost: number, tookMs: number): void {
    this.#carried = bytes / Math.max(1, tookMs);
    if (bytes > 0) this.#ratio += (Math.min(MAX_RATIO, cost / bytes) - this.#ratio) / 4;
    if (tookMs > LONG_MS) this.#bytes = this.#within(bytes / 2);
    // A small batch says little about the time of a large one.
    else if (tookMs < SHORT_MS && bytes > this.#bytes / 2) this.#bytes = this.#within(this.#bytes * 2);
  }

  /** A batch did not arrive, or not in time. */
  failed(): void {
    this.#bytes = this.#within(this.#bytes / 2);
    this.#carried = 0;
  }

  #within(bytes: number): number {
    return Math.min(this.#mostBytes, Math.max(MIN_BYTES, Math.floor(bytes)));
  }

  #fill(nowMs: number): void {
    this.#tokens = Math.min(this.#most, this.#tokens + (nowMs - this.#filledMs) * this.#rate);
    this.#filledMs = nowMs;
  }
}

// The data budget of a day, counted over 24 h of running time: the wall clock may jump, and a box that is off sends nothing.
// In buckets of an hour, of which 25 count, so that no 24 h hold more than is allowed.

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
  readonly limit: number;
  readonly #ranBeforeMs: number;
  readonly #startedMs: number;
  #hours: [number, number][];

  /** `limit`: bytes; 0: none. */
  constructor(limit: number, saved: SavedBudget | undefined, nowMs: number) {
    this.limit = limit;
    this.#ranBeforeMs = saved?.ranMs ?? 0;
    this.#startedMs = nowMs;
    this.#hours = (saved?.hours ?? []).map(([hour, bytes]) => [hour, bytes]);
  }

  /** Less than 0: what was charged of late and was not sent. */
  charge(bytes: number, nowMs: number): void {
    if (bytes === 0) return;
    const hour = this.#hourAt(nowMs);
    const last = this.#hours.at(-1);
    if (last !== undefined && (last[0] === hour || bytes < 0)) last[1] = Math.max(0, last[1] + bytes);
    else this.#hours.push([hour, bytes]);
    this.#hours = this.#hours.filter(([one]) => one > hour - HOURS);
  }

  used(nowMs: number): number {
    const hour = this.#hourAt(nowMs);
    return this.#hours.reduce((sum, [one, bytes]) => (one > hour - HOURS ? sum + bytes : sum), 0);
  }

  /** Infinite where there is no limit. */
  left(nowMs: number): number {
    return this.limit === 0 ? Number.POSITIVE_INFINITY : Math.max(0, this.limit - this.used(nowMs));
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
