/**
 * How fast and in what portions: a bucket of tokens for the cap, which are there before anything is sent; and a size of
 * batches that the link carries in about a second, so that a change event never waits for longer behind one. Pure.
 */

/** Before anything is known of the link: a second of 64 kbit/s. */
const FIRST_BYTES = 8 * 1024;
/** Never below: what the protocols add would be most of it. */
export const LEAST_BYTES = 4 * 1024;
/** A batch that took less may be followed by one of twice its size, */
const SHORT_MS = 500;
/** one that took more by one of half. */
const LONG_MS = 1_500;
/** Of a batch so small that it is mostly what the protocols add. */
const MOST_RATIO = 2;
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
    return Math.max(Math.min(LEAST_BYTES, this.#mostBytes), Math.min(this.#bytes, (this.#rate * 1_000) / this.#ratio));
  }

  /** Milliseconds until so many bytes may go. */
  waitMs(cost: number, nowMs: number): number {
    if (this.#rate === 0) return 0;
    this.#most = Math.max(this.#rate * SAVED_MS, cost + this.#rate * SPARE_MS);
    this.#fill(nowMs);
    return this.#tokens >= cost ? 0 : Math.ceil((cost - this.#tokens) / this.#rate);
  }

  spent(cost: number, nowMs: number): void {
    if (this.#rate === 0) return;
    this.#fill(nowMs);
    this.#tokens -= cost;
  }

  /** A batch of so many bytes arrived, at this cost. */
  arrived(bytes: number, cost: number, tookMs: number): void {
    if (bytes > 0) this.#ratio += (Math.min(MOST_RATIO, cost / bytes) - this.#ratio) / 4;
    if (tookMs > LONG_MS) this.#bytes = this.#within(bytes / 2);
    // A small one says little of what a large one would take.
    else if (tookMs < SHORT_MS && bytes > this.#bytes / 2) this.#bytes = this.#within(this.#bytes * 2);
  }

  /** One did not, or not in time. */
  failed(): void {
    this.#bytes = this.#within(this.#bytes / 2);
  }

  #within(bytes: number): number {
    return Math.min(this.#mostBytes, Math.max(LEAST_BYTES, Math.floor(bytes)));
  }

  #fill(nowMs: number): void {
    this.#tokens = Math.min(this.#most, this.#tokens + (nowMs - this.#filledMs) * this.#rate);
    this.#filledMs = nowMs;
  }
}
