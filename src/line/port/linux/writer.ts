/**
 * Writes to a non-blocking tty in pieces. `tty.WriteStream` blocked the event loop for 3.7 s on a stalled line; this
 * never does: what the kernel does not take at once waits for a timer, so a stalled line costs no CPU and no reading.
 */
import { clearImmediate as cancelTurn, setImmediate as nextTurn } from 'node:timers';
import type { Clock, Timer } from '../../../shared/base/clock.ts';
import { LinesideError, messageOf } from '../../../shared/base/errors.ts';

/** One write call; the kernel itself cuts tty writes into 2,048 bytes. */
const PIECE_BYTES = 2_048;
/** Written before the event loop gets its turn to read: about 70 us on a PTY. */
const TURN_BYTES = 16_384;
/** The kernel holds about 4 KiB for a UART: 12 ms at 3 Mbaud, so asking again after 1 ms leaves no pause on the wire. */
const FIRST_RETRY_MS = 1;
/**
 * Reached only by a line slower than 80 kbaud (see below), which leaves the driver's 1 to 4 KiB at least 128 ms of work;
 * and 16 wake-ups a second are no load (0.3 % of a core).
 */
const MAX_RETRY_MS = 64;
/** A retry that placed so much shows that the line drains faster than we ask. */
const GOOD_PROGRESS_BYTES = 512;

export interface WriteResult {
  /** Bytes that the kernel accepted: all of them, unless `error` is set. */
  readonly accepted: number;
  /** Why it ended early: write error, the port was lost or closed, or the signal fired. */
  readonly error: Error | undefined;
}

interface Job {
  readonly data: Uint8Array;
  readonly resolve: (result: WriteResult) => void;
  /** Stops listening to the signals. */
  unlisten: () => void;
  accepted: number;
  retryMs: number;
}

interface WriterOptions {
  readonly clock: Clock;
  /** The port itself is gone; called before the write's result is given. */
  readonly onDead: (cause: Error) => void;
  /** Writes to the non-blocking tty: the bytes it took, 0 for none now; throws when it is gone (libc.ts, writeSome). */
  readonly write: (data: Uint8Array) => number;
}

export class TtyWriter {
  readonly #options: WriterOptions;
  #job: Job | undefined;
  #timer: Timer | undefined;
  #turn: NodeJS.Immediate | undefined;
  #ended: Error | undefined;

  constructor(options: WriterOptions) {
    this.#options = options;
  }

  /**
   * One call at a time. What fits at once is written before this returns. Never rejects. `signal` ends the write at any time,
   * `cancel` only while the kernel has accepted nothing: a packet cut in two would upset the device behind the line.
   */
  write(data: Uint8Array, signal: AbortSignal, cancel?: AbortSignal): Promise<WriteResult> {
    if (this.#ended !== undefined) return Promise.resolve({ accepted: 0, error: this.#ended });
    const fired = [signal, cancel].find((one) => one?.aborted === true);
    if (fired !== undefined) return Promise.resolve({ accepted: 0, error: abandoned(fired) });
    if (this.#job !== undefined)
      return Promise.resolve({ accepted: 0, error: new LinesideError('INTERNAL', 'a write is already under way') });
    return new Promise((resolve) => {
      const job: Job = { data, resolve, unlisten() {}, accepted: 0, retryMs: FIRST_RETRY_MS };
      this.#job = job;
      this.#pump(job);
      // Most writes are done by now and need no listener.
      if (this.#job === job) this.#listen(job, signal, cancel);
    });
  }

  /** Ends the write under way, and every later one, with this error. */
  end(cause: Error): void {
    if (this.#ended !== undefined) return;
    this.#ended = cause;
    this.#finish(cause);
  }

  #listen(job: Job, signal: AbortSignal, cancel: AbortSignal | undefined): void {
    const onAbort = (): void => this.#finish(abandoned(signal));
    const onCancel = (): void => {
      if (cancel !== undefined && job.accepted === 0) this.#finish(abandoned(cancel));
    };
    signal.addEventListener('abort', onAbort, { once: true });
    cancel?.addEventListener('abort', onCancel, { once: true });
    job.unlisten = () => {
      signal.removeEventListener('abort', onAbort);
      cancel?.removeEventListener('abort', onCancel);
    };
  }

  #pump(job: Job): void {
    const before = job.accepted;
    const stop = Math.min(job.data.length, before + TURN_BYTES);
    try {
      while (job.accepted < stop) {
        const length = Math.min(PIECE_BYTES, stop - job.accepted);
        const taken = this.#options.write(job.data.subarray(job.accepted, job.accepted + length));
        job.accepted += taken;
        if (taken < length) break;
      }
    } catch (thrown) {
      return this.#fail(thrown);
    }
    if (job.accepted === job.data.length) this.#finish(undefined);
    else if (job.accepted === stop) this.#turn = nextTurn(() => this.#pump(job));
    else this.#retryLater(job, job.accepted - before);
  }

  #retryLater(job: Job, progress: number): void {
    job.retryMs = progress >= GOOD_PROGRESS_BYTES ? FIRST_RETRY_MS : job.retryMs;
    this.#timer = this.#options.clock.timer(job.retryMs, () => {
      if (job.accepted === 0) void this.#begin(job);
      else this.#pump(job);
    });
    job.retryMs = Math.min(MAX_RETRY_MS, job.retryMs * 2);
  }

  /** The first byte is written when no cancellation waits to be read. */
  async #begin(job: Job): Promise<void> {
    await caughtUp(this.#options.clock);
    if (this.#job === job) this.#pump(job);
  }

  #fail(thrown: unknown): void {
    const error = new LinesideError('PORT_IO', `write failed: ${messageOf(thrown)}`, { cause: thrown });
    this.#ended = error;
    this.#options.onDead(error);
    this.#finish(error);
  }

  #finish(error: Error | undefined): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#turn !== undefined) cancelTurn(this.#turn);
    this.#turn = undefined;
    const job = this.#job;
    if (job === undefined) return;
    this.#job = undefined;
    job.unlisten();
    job.resolve({ accepted: job.accepted, error });
  }
}

function abandoned(signal: AbortSignal): LinesideError {
  return new LinesideError('NOT_SENT', 'the write was ended by its caller', { cause: signal.reason });
}

/** A turn of the event loop that takes longer was stopped (by a signal, by other processes): more may have arrived. */
const LONG_TURN_MS = 5;
/** A machine on which every turn is so long still sends. */
const MAX_TURNS = 10;

/** Resolves when what has arrived on the sockets of the process was read: a cancellation may be among it. */
export async function caughtUp(clock: Clock): Promise<void> {
  for (let turns = 0; turns < MAX_TURNS; turns += 1) {
    const from = clock.monoMs();
    // The event loop reads its sockets before it gets here.
    await new Promise<void>((resolve) => nextTurn(resolve));
    if (clock.monoMs() - from <= LONG_TURN_MS) return;
  }
}
