/** The messages between a worker host and its worker. Knows nothing of the contents. */

/** The methods of a worker: what each is called with and what it answers. */
export type Contract<C> = { readonly [M in keyof C]: { readonly request: unknown; readonly response: unknown } };

export interface CallMessage {
  readonly call: number;
  readonly method: string;
  readonly request: unknown;
}

/** A call that every worker answers, whatever its contract, when its turn comes: it shows that the thread is at work. */
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
}

/** A failure inside the worker, or of the worker itself (code WORKER_EXITED). */
export class WorkerError extends Error {
  override readonly name = 'WorkerError';
  readonly code: string;
  readonly hint: string;

  constructor(carried: CarriedError) {
    super(carried.message);
    this.code = carried.code;
    this.hint = carried.hint;
  }
}
