/**
 * How many bytes may be in flight: as many as the link carries in a few seconds. Messages queued on a slow link for longer time
 * out, are sent again and time out again: 4 MiB at once never arrive at 64 kbit/s. The window grows while acknowledgements are
 * prompt, and halves when they are late. Pure.
 */

/** At first, and after a time-out: 8 s at 64 kbit/s uncompressed, about 1 s of compressed JSON. */
const FIRST_BYTES = 65_536;
/** About ten ordinary events. */
const LEAST_BYTES = 8_192;
/** An acknowledgement within this makes the window grow by what it acknowledges: it doubles with each round trip. */
const PROMPT_MS = 2_000;
/** One later than this is late: less than every time-out, and than the silence after which a broker is probed. */
const LATE_MS = 5_000;

export class SendWindow {
  readonly #mostBytes: number;
  readonly #lateMs: number;
  bytes: number;
  /** Acknowledgements of messages taken before do not count. */
  #shrunkMs = Number.NEGATIVE_INFINITY;

  constructor(mostBytes: number, messageTimeoutMs: number) {
    this.#mostBytes = mostBytes;
    this.#lateMs = Math.min(LATE_MS, messageTimeoutMs / 4);
    this.bytes = Math.min(FIRST_BYTES, mostBytes);
  }

  acknowledged(bytes: number, takenMs: number, nowMs: number): void {
    const ageMs = nowMs - takenMs;
    if (ageMs > this.#lateMs) this.#shrink(this.bytes / 2, takenMs, nowMs);
    else if (ageMs <= Math.min(PROMPT_MS, this.#lateMs)) this.bytes = Math.min(this.#mostBytes, this.bytes + bytes);
  }

  timedOut(takenMs: number, nowMs: number): void {
    this.#shrink(Math.min(FIRST_BYTES, this.bytes / 2), takenMs, nowMs);
  }

  #shrink(to: number, takenMs: number, nowMs: number): void {
    if (takenMs < this.#shrunkMs) return;
    this.bytes = Math.min(this.#mostBytes, Math.max(LEAST_BYTES, to));
    this.#shrunkMs = nowMs;
  }
}

interface Taken {
  readonly topic: string;
  readonly bytes: number;
  /** Monotonic milliseconds. */
  readonly takenMs: number;
}

export class Outstanding {
  #taken = new Map<number, Taken>();
  bytes = 0;

  get size(): number {
    return this.#taken.size;
  }

  take(id: number, message: Taken): void {
    this.#taken.set(id, message);
    this.bytes += message.bytes;
  }

  /** undefined: it was settled before, or never taken. */
  settle(id: number): Taken | undefined {
    const message = this.#taken.get(id);
    if (message === undefined) return undefined;
    this.#taken.delete(id);
    this.bytes -= message.bytes;
    return message;
  }

  ids(): number[] {
    return [...this.#taken.keys()];
  }
}
