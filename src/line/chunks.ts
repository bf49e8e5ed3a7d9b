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

export interface Chunk {
  readonly data: Uint8Array;
  /** Wall clock at the arrival of the first byte. */
  readonly atMs: number;
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
  #parts: Uint8Array[] = [];
  #bytes = 0;
  #firstAtMs = 0;
  #lastMonoMs = 0;

  /** gapMs 0: every read is a chunk of its own (or several, when it is longer than a chunk). */
  constructor(gapMs: number) {
    this.#gapMs = gapMs;
  }

  /** Takes bytes that just arrived and gives the chunks that they complete. */
  feed(bytes: Uint8Array, wallMs: number, monoMs: number): Chunk[] {
    const done: Chunk[] = [];
    // The timer may be late: silence that is over counts all the same.
    if (this.#bytes > 0 && monoMs - this.#lastMonoMs >= this.#gapMs) this.#cut(done);
    this.#lastMonoMs = monoMs;
    let from = 0;
    while (from < bytes.length) {
      if (this.#bytes === 0) this.#firstAtMs = wallMs;
      const to = Math.min(bytes.length, from + CHUNK_BYTES - this.#bytes);
      this.#parts.push(from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to));
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

  /** Ends the open chunk, if any: silence came, or the port closes. */
  silence(): Chunk[] {
    const done: Chunk[] = [];
    this.#cut(done);
    return done;
  }

  #cut(done: Chunk[]): void {
    if (this.#bytes === 0) return;
    const only = this.#parts.length === 1 ? this.#parts[0] : undefined;
    done.push({ data: only ?? Buffer.concat(this.#parts, this.#bytes), atMs: this.#firstAtMs });
    this.#parts = [];
    this.#bytes = 0;
  }
}
