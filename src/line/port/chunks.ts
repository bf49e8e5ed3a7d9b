/**
 * Cuts the received bytes into chunks: the bytes up to the next silence on the line, CHUNK_BYTES or the longest time,
 * whichever comes first. Pure: time comes in with the bytes; lookInMs() gives the owner of the timer the next call.
 *
 * A read shows when bytes were read, not when they were on the wire. So its own time on the wire is no silence, neither is
 * the time for which a UART holds bytes back, nor the time in which the process did not run. If unsure, chunks are joined.
 */
import type { Framing } from './line-config.ts';

/** The longest chunk: what the kernel's line discipline hands over at most. */
export const CHUNK_BYTES = 4_096;
/** Modbus RTU's silence that ends a frame, and the field's habit. */
const GAP_CHARACTERS = 3.5;
/** Below this, a timer of the process is no measure of silence on the line. */
const MIN_GAP_MS = 2;
/** A UART reports less than a full burst after this silence: the 16550A after 4 characters, the PL011 after 32 bits. */
const UART_TIMEOUT_CHARACTERS = 4;
/**
 * The largest burst that may still be on the wire: the FIFO of the PL011 (reports at 8 bytes) and of the 16550A (at 14 at
 * most) has 16 bytes. USB adapters report within a millisecond (70-lineside.rules), which the least gap allows for.
 */
const UART_FIFO_BYTES = 16;
/** A chunk ends after so long, because only complete chunks are stored; but never a frame of up to 256 bytes (Modbus RTU). */
const MAX_CHUNK_MS = 1_000;
const MAX_CHUNK_CHARACTERS = 300;
/** A timer that is later than this shows that the process did not run. Node's timers are exact to a millisecond. */
const TIMER_LATE_MS = 1;

export interface Chunk {
  readonly data: Uint8Array;
  /** Wall clock at the arrival of the first byte. */
  readonly atMs: number;
  /** Monotonic clock at that moment. */
  readonly monoMs: number;
}

/** The time of one character on the wire, the start bit included. */
export function characterMs(settings: Framing): number {
  const parityBits = settings.parity === 0 ? 0 : 1;
  const stopBits = settings.stopBits === 0 ? 1 : settings.stopBits === 1 ? 1.5 : 2;
  return ((1 + settings.dataBits + parityBits + stopBits) * 1_000) / settings.baudRate;
}

/** The silence that ends a chunk: 3.5 character times, at least 2 ms. */
export function defaultGapMs(settings: Framing): number {
  return Math.max(MIN_GAP_MS, GAP_CHARACTERS * characterMs(settings));
}

export class ChunkCutter {
  readonly gapMs: number;
  readonly #characterMs: number;
  /** Without a byte for so long, the next read cannot bring bytes that follow within the gap. */
  readonly #quietMs: number;
  readonly #maxMs: number;
  /** Time between two looks: a stop of the process that no late look shows is then too short to pass for the gap. */
  readonly #lookMs: number;
  /** The open chunk's bytes: copied here, the arrays of many small reads die young instead of waiting for its end. */
  readonly #open = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  #bytes = 0;
  #firstAtMs = 0;
  #firstMonoMs = 0;
  #readMs = 0;
  /** Silence counts from here: the last read, or the first empty poll after the process did not run. */
  #silentFromMs = 0;
  /** The next look, and when its timer was started: the process ran at that moment. */
  #lookAtMs = Number.POSITIVE_INFINITY;
  #lookAskedMs = 0;

  /** gapMs 0: every read is a chunk of its own (or several, when it is longer than a chunk). */
  constructor(gapMs: number, oneCharacterMs: number) {
    this.gapMs = gapMs;
    this.#characterMs = oneCharacterMs;
    this.#quietMs = gapMs + this.#wireMs(UART_FIFO_BYTES);
    this.#maxMs = Math.max(MAX_CHUNK_MS, MAX_CHUNK_CHARACTERS * oneCharacterMs);
    this.#lookMs = Math.max(1, Math.floor(gapMs - TIMER_LATE_MS));
  }

  /** Not every read is a chunk. */
  get joinsReads(): boolean {
    return this.gapMs > 0;
  }

  /** A copy of the open chunk's bytes. */
  get unfinished(): Uint8Array {
    return new Uint8Array(this.#open.subarray(0, this.#bytes));
  }

  /** Takes bytes that just arrived and gives the chunks that they complete. */
  feed(bytes: Uint8Array, wallMs: number, monoMs: number): Chunk[] {
    if (this.gapMs === 0 && bytes.length > 0 && bytes.length <= CHUNK_BYTES) {
      return [{ data: bytes, atMs: wallMs, monoMs }];
    }
    const done: Chunk[] = [];
    const ranMs = this.late(monoMs) ? this.#lookAskedMs : monoMs;
    if (ranMs - this.#silentFromMs - this.#wireMs(bytes.length) >= this.gapMs) this.#cut(done);
    this.#readMs = monoMs;
    this.#silentFromMs = monoMs;
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
    // With the bytes: after a stop of the process this read brings the rest of a frame.
    if (this.gapMs === 0 || this.#isOld(monoMs)) this.#cut(done);
    return done;
  }

  /** Milliseconds (whole, as Node's timers are) after which to call look(); undefined when no chunk is open. */
  lookInMs(monoMs: number): number | undefined {
    if (this.#bytes === 0) return undefined;
    const leftMs = Math.min(this.#silentFromMs + this.#quietMs, this.#firstMonoMs + this.#maxMs) - monoMs;
    const inMs = Math.max(1, Math.min(this.#lookMs, Math.ceil(leftMs)));
    this.#lookAskedMs = monoMs;
    this.#lookAtMs = monoMs + inMs;
    return inMs;
  }

  /** The process did not run since the timer was started: poll the port, then call polled(), before look(). */
  late(monoMs: number): boolean {
    return monoMs > this.#lookAtMs + TIMER_LATE_MS;
  }

  /** What had arrived was read. The first such moment since the last byte is where silence begins. */
  polled(monoMs: number): void {
    if (this.#silentFromMs === this.#readMs) this.#silentFromMs = monoMs;
  }

  /** Ends the open chunk if the line is silent, or the chunk is old. */
  look(monoMs: number): Chunk[] {
    return monoMs - this.#silentFromMs >= this.#quietMs || this.#isOld(monoMs) ? this.end() : [];
  }

  /** Ends the open chunk, if any: the port closes. */
  end(): Chunk[] {
    const done: Chunk[] = [];
    this.#cut(done);
    return done;
  }

  /** The time on the wire of the bytes of a read, and the longest for which the UART held them back. */
  #wireMs(bytes: number): number {
    return (bytes + UART_TIMEOUT_CHARACTERS) * this.#characterMs;
  }

  #isOld(monoMs: number): boolean {
    return monoMs - this.#firstMonoMs >= this.#maxMs;
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
