/** The caller's side of a worker thread: methods as async calls. Every pending call is rejected when the worker ends. */
import { basename } from 'node:path';
import { type ResourceLimits, type Transferable, Worker } from 'node:worker_threads';
import { endsWithin, systemClock } from '../base/clock.ts';

// The messages between a host and its worker (worker-serve.ts): plain values, whose contents neither knows.

/** The methods of a worker: what each is called with and what it answers. */
export type Contract<C> = { readonly [M in keyof C]: { readonly request: unknown; readonly response: unknown } };

export interface CallMessage {
  readonly call: number;
  readonly method: string;
  readonly request: unknown;
}

/** A call that every worker answers in its turn, whatever its contract: the answer shows that the thread works. */
export const ALIVE = 'alive?';

/** Sent once: no call comes after it, and work that can end early does so. */
export interface StopMessage {
  readonly stop: true;
}

/** Shared with the worker, so that work that never returns to its messages sees it: 1 when asked to stop. */
export interface WorkerStart {
  readonly stopFlag: Int32Array;
}

export type AnswerMessage =
  | { readonly call: number; readonly ok: true; readonly value: unknown }
  | { readonly call: number; readonly ok: false; readonly error: CarriedError };

export interface CarriedError {
  readonly message: string;
  /** SQLITE_FULL, ENOENT and so on; '' where there was none. */
  readonly code: string;
  readonly hint: string;
  readonly reasons?: readonly string[];
}

/** A failure inside the worker, or of the worker itself (code WORKER_EXITED). */
export class WorkerError extends Error {
  override readonly name = 'WorkerError';
  readonly code: string;
  readonly hint: string;
  readonly reasons: readonly string[];

  constructor(carried: CarriedError) {
    super(carried.message);
    this.code = carried.code;
    this.hint = carried.hint;
    this.reasons = carried.reasons ?? [];
  }
}

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

export class WorkerHost<C extends Contract<C>> {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  #calls = 0;
  #failure: WorkerError | undefined;
  readonly #stopFlag = new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT));
  readonly exited: Promise<void>;

  constructor(url: URL, resourceLimits: ResourceLimits = {}) {
    const start: WorkerStart = { stopFlag: this.#stopFlag };
    // Its name in top -H: "lineside-log" of log-worker.js; the kernel keeps 15 bytes.
    const name = `lineside-${basename(url.pathname).split('-')[0]}`;
    // Options of the process are none of its threads: in the tests they would load a compiler for each.
    this.#worker = new Worker(url, { workerData: start, name, resourceLimits, execArgv: [] });
    this.#worker.on('message', (message: AnswerMessage) => this.#settle(message));
    this.#worker.on('messageerror', (error) => this.#fail(`a message could not be read: ${error.message}`));
    this.#worker.on('error', (error) => this.#fail(error instanceof Error ? error.message : String(error)));
    this.exited = new Promise((resolve) => {
      this.#worker.once('exit', (status) => {
        this.#fail(`it ended with status ${status}`);
        resolve();
      });
    });
  }

  get alive(): boolean {
    return this.#failure === undefined;
  }

  call<M extends keyof C & string>(
    method: M,
    request: C[M]['request'],
    transfer: readonly Transferable[] = [],
  ): Promise<C[M]['response']> {
    return this.#ask(method, request, transfer);
  }

  /** Resolves after the calls before it. */
  async answers(): Promise<void> {
    await this.#ask(ALIVE, undefined, []);
  }

  #ask(method: string, request: unknown, transfer: readonly Transferable[]): Promise<unknown> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    const call = ++this.#calls;
    return new Promise<unknown>((resolve, reject) => {
      this.#waiting.set(call, { resolve, reject });
      const message: CallMessage = { call, method, request };
      this.#worker.postMessage(message, transfer);
    });
  }

  /**
   * Ends the worker. It is asked first, and only ended by force after limitMs: a thread that is ended while it loads or
   * runs better-sqlite3 can abort the whole process ("FATAL ERROR: Error::New napi_get_last_error_info"). One held
   * by a hung system call cannot even be ended by force: it is left behind after another limitMs.
   */
  async terminate(limitMs: number): Promise<void> {
    this.#fail('it was asked to stop');
    Atomics.store(this.#stopFlag, 0, 1);
    const stop: StopMessage = { stop: true };
    this.#worker.postMessage(stop);
    if (!(await endsWithin(systemClock, limitMs, this.exited))) {
      await endsWithin(systemClock, limitMs, this.#worker.terminate());
    }
    this.#worker.unref();
  }

  #settle(message: AnswerMessage): void {
    const waiting = this.#waiting.get(message.call);
    this.#waiting.delete(message.call);
    if (message.ok) waiting?.resolve(message.value);
    else waiting?.reject(new WorkerError(message.error));
  }

  #fail(reason: string): void {
    this.#failure ??= new WorkerError({ message: `the worker is gone: ${reason}`, code: 'WORKER_EXITED', hint: '' });
    for (const waiting of this.#waiting.values()) waiting.reject(this.#failure);
    this.#waiting.clear();
  }
}

/** A worker's file beside the caller's: .ts when run from source, .js when compiled. */
export function besideModule(name: string, importMetaUrl: string): URL {
  const extension = importMetaUrl.endsWith('.ts') ? '.ts' : '.js';
  return new URL(`./${name}${extension}`, importMetaUrl);
}
