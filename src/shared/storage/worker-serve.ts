/** The worker's side: answers calls one at a time, in the order they came. */
import { parentPort, type Transferable, workerData } from 'node:worker_threads';
import { LinesideError, messageOf, systemCode } from '../base/errors.ts';
import {
  ALIVE,
  type AnswerMessage,
  type CallMessage,
  type CarriedError,
  type Contract,
  type StopMessage,
  type WorkerStart,
} from './worker-host.ts';

type Handlers<C extends Contract<C>> = {
  readonly [M in keyof C]: (request: C[M]['request']) => C[M]['response'];
};
/** Buffers of an answer whose memory goes over to the caller instead of being copied. */
type Transfers<C extends Contract<C>> = {
  readonly [M in keyof C]?: (response: C[M]['response']) => readonly Transferable[];
};

export function serve<C extends Contract<C>>(handlers: Handlers<C>, transfers: Transfers<C> = {}): void {
  const port = parentPort;
  if (port === null) throw new Error('this file runs as a worker thread');
  port.on('message', (message: CallMessage | StopMessage) => {
    if ('stop' in message) return port.close();
    const answer = run(handlers, transfers, message);
    port.postMessage(answer.message, answer.transfer);
  });
}

/** Long work polls this: true when its caller no longer waits. */
export function isStopRequested(): boolean {
  return Atomics.load((workerData as WorkerStart).stopFlag, 0) === 1;
}

function run<C extends Contract<C>>(
  handlers: Handlers<C>,
  transfers: Transfers<C>,
  { call, method, request }: CallMessage,
): { message: AnswerMessage; transfer: readonly Transferable[] } {
  try {
    if (method === ALIVE) return { message: { call, ok: true, value: true }, transfer: [] };
    if (!isMethod(handlers, method)) throw new Error(`no method ${method}`);
    const value = handlers[method](request);
    return { message: { call, ok: true, value }, transfer: transfers[method]?.(value) ?? [] };
  } catch (error) {
    return { message: { call, ok: false, error: carried(error) }, transfer: [] };
  }
}

function isMethod<C extends Contract<C>>(handlers: Handlers<C>, method: string): method is keyof C & string {
  return Object.hasOwn(handlers, method);
}

function carried(thrown: unknown): CarriedError {
  const { hint, reasons } = thrown instanceof LinesideError ? thrown : { hint: '', reasons: [] };
  return { message: messageOf(thrown), code: systemCode(thrown), hint, reasons };
}
