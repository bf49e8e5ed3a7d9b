/**
 * Cuts the received bytes into chunks: the bytes up to the next silence on the line, or CHUNK_BYTES, whichever comes
 * first. Pure: time comes in with the bytes, and the owner of the timer asks when to call again.
 */
import type { LineSettings } from './settings.ts';

/** The longest chunk: what the kernel's line discipline hands over at most. */
export const CHUNK_BYTES = 4_096;
/** Modbus RTU's silence that ends a frame, and the field's habit. */
const GAP_CHARACTERS = 3.5;
/** Below this, a timer of the process is no measure of silence on the line. */
const MIN_GAP_MS = 2;
/**
 * A chunk that has been growing for a while is looked at after this part of its age, so that a busy line does not wake
 * the process once for each read to find no silence (at 115,200 baud that was half of the CPU time).
 */
const LOOK_PART = 1 / 4;
/** The latest that the end of a long burst is noticed, when nothing follows it. */
const MAX_LOOK_MS = 20;

export interface Chunk {
  readonly data: Uint8Array;
  /** Wall clock at the arrival of the first byte. */
  readonly atMs: number;
  /** Monotonic clock at that moment. */
  readonly monoMs: number;
}

/** The silence that ends a chunk: 3.5 character times, at least 2 ms. */
export function defaultGapMs(settings: LineSettings): number {
  const parityBits = settings.parity === 0 ? 0 : 1;
  const stopBits = settings.stopBits === 0 ? 1 : settings.stopBits === 1 ? 1.5 : 2;
  const bits = 1 + settings.dataBits + parityBits + stopBits;
  return Math.max(MIN_GAP_MS, (GAP_CHARACTERS * bits * 1_000) / settings.baudRate);
}

export class ChunkCutter {
  readonly #gapMs: number;
  /** The open chunk's bytes: copied here, the arrays of many small reads die young instead of waiting for its end. */
  readonly #open = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  #bytes = 0;
  #firstAtMs = 0;
  #firstMonoMs = 0;
  #lastMonoMs = 0;

  /** gapMs 0: every read is a chunk of its own (or several, when it is longer than a chunk). */
  constructor(gapMs: number) {
    this.#gapMs = gapMs;
  }

  /** Takes bytes that just arrived and gives the chunks that they complete. */
  feed(bytes: Uint8Array, wallMs: number, monoMs: number): Chunk[] {
    if (this.#gapMs === 0 && bytes.length > 0 && bytes.length <= CHUNK_BYTES) {
      return [{ data: bytes, atMs: wallMs, monoMs }];
    }
    const done: Chunk[] = [];
    // The timer may be late: silence that is over counts all the same.
    if (this.#bytes > 0 && monoMs - this.#lastMonoMs >= this.#gapMs) this.#cut(done);
    this.#lastMonoMs = monoMs;
    let from = 0;
    while (from < bytes.length) {
      if (this.#bytes === 0) {
        this.#firstAtMs = wallMs;
        this.#firstMonoMs = monoMs;
      }
      const to = Math.min(bytes.length, from + CHUNK_BYTES - this.#bytes);
      this.#open.set(bytes.subarray(from, to), this.#bytes);
      this.#bytes += to - from;
      from = to;
      if (this.#bytes === CHUNK_BYTES) this.#cut(done);
    }
    if (this.#gapMs === 0) this.#cut(done);
    return done;
  }

  /** Milliseconds until silence may end the open chunk; undefined when none is open. At 0 or below, call silence(). */
  dueInMs(monoMs: number): number | undefined {
    return this.#bytes === 0 ? undefined : this.#lastMonoMs + this.#gapMs - monoMs;
  }

  /** Milliseconds after which to ask dueInMs: never before silence can have come, but later for a chunk that grows long. */
  lookInMs(monoMs: number): number | undefined {
    const dueInMs = this.dueInMs(monoMs);
    if (dueInMs === undefined) return undefined;
    return Math.max(dueInMs, Math.min(MAX_LOOK_MS, (monoMs - this.#firstMonoMs) * LOOK_PART));
  }

  /** Ends the open chunk, if any: silence came, or the port closes. */
  silence(): Chunk[] {
    const done: Chunk[] = [];
    this.#cut(done);
    return done;
  }

  #cut(done: Chunk[]): void {
    if (this.#bytes === 0) return;
    // An array of its own: one from Buffer's pool would keep 64 KiB in memory as long as the log's tail holds the chunk.
    const data = Buffer.allocUnsafeSlow(this.#bytes);
    data.set(this.#open.subarray(0, this.#bytes));
    done.push({ data, atMs: this.#firstAtMs, monoMs: this.#firstMonoMs });
    this.#bytes = 0;
  }
}
