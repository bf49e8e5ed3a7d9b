/**
 * The interceptor in front of every call: refuses who may not, before a byte of the message is read, and hands the
 * methods what nice-grpc's context lacks (whose connection it is, the deadline) as private metadata. nice-grpc passes
 * its options on to grpc-js, `interceptors` among them.
 */
import {
  type Metadata,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  status,
} from '@grpc/grpc-js';
import type { CallContext } from 'nice-grpc';
import type { Clock } from '../../base/clock.ts';
import { errorCatalogue, LinesideError } from '../../base/errors.ts';
import type { RefusalLog } from '../../base/refusal-log.ts';
import { type Connection, Connections } from './connection.ts';
import type { Judge, Refusal } from './credentials.ts';
import { DEADLINE_MARGIN_MS, DEADLINE_MARGIN_PART } from './limits.ts';

/** Removed from what a client sends, then set here. */
const CALLER = 'lineside-internal-caller';
const DEADLINE = 'lineside-internal-deadline';

export interface Gate {
  interceptor(judge: Judge | undefined): ServerInterceptor;
  /** From now on every call is refused with UNAVAILABLE. */
  close(): void;
}

export function createGate(clock: Clock, refused: RefusalLog): Gate {
  const connections = new Connections();
  let open = true;
  const admit = async (judge: Judge, path: string, metadata: Metadata, connection: Connection): Promise<Refusal> => {
    const refusal = await judge(path, metadata.get('authorization').map(String), connection);
    if (refusal !== undefined) refused.note(path, connection.peer, refusal.message);
    return refusal;
  };
  return {
    interceptor: (judge) => (method, call) => {
      const connection = connections.of(call);
      const deadline = deadlineOf(call, clock);
      return new GatedCall(call, (metadata) => {
        if (!open) return new LinesideError('SHUTTING_DOWN', 'the service is stopping');
        metadata.remove(CALLER);
        metadata.remove(DEADLINE);
        metadata.set(CALLER, connection.caller);
        if (deadline !== undefined) metadata.set(DEADLINE, String(deadline));
        return judge === undefined ? undefined : admit(judge, method.path, metadata, connection);
      });
    },
    close: () => {
      open = false;
    },
  };
}

/** Monotonic time by which an answer must be on its way; grpc-js gives wall-clock time, of which only the distance counts. */
function deadlineOf(call: ServerInterceptingCallInterface, clock: Clock): number | undefined {
  const deadline = Number(call.getDeadline());
  if (!Number.isFinite(deadline)) return undefined;
  const remaining = Math.max(0, deadline - clock.wallMs());
  return clock.monoMs() + remaining - Math.min(DEADLINE_MARGIN_MS, remaining * DEADLINE_MARGIN_PART);
}

/** All calls of one connection have the same. */
export function callerOf(context: CallContext): string {
  return context.metadata.get(CALLER) ?? context.peer;
}

export function deadlineMsOf(context: CallContext): number | undefined {
  const text = context.metadata.get(DEADLINE);
  return text === undefined ? undefined : Number(text);
}

function nothing(): void {}

type InterceptingServerListener = Parameters<ServerInterceptingCallInterface['start']>[0];
type Admit = (metadata: Metadata) => Refusal | Promise<Refusal>;

/** Passes messages straight through: the class it extends would wrap each in closures. */
class GatedCall extends ServerInterceptingCall {
  readonly #call: ServerInterceptingCallInterface;
  readonly #admit: Admit;

  constructor(call: ServerInterceptingCallInterface, admit: Admit) {
    super(call);
    this.#call = call;
    this.#admit = admit;
  }

  override start(listener: InterceptingServerListener): void {
    let admitted = false;
    let cancelled = false;
    const settle = (metadata: Metadata, refusal: Refusal): void => {
      if (cancelled) return;
      if (refusal !== undefined) return this.#refuse(refusal);
      admitted = true;
      listener.onReceiveMetadata(metadata);
    };
    this.#call.start({
      onReceiveMetadata: (metadata) => {
        const refusal = this.#admit(metadata);
        if (!(refusal instanceof Promise)) return settle(metadata, refusal);
        refusal.then(
          (judged) => settle(metadata, judged),
          (error: unknown) => settle(metadata, new LinesideError('INTERNAL', 'judging the caller', { cause: error })),
        );
      },
      onReceiveMessage: (message) => listener.onReceiveMessage(message),
      onReceiveHalfClose: () => listener.onReceiveHalfClose(),
      onCancel: () => {
        cancelled = true;
        // A call that was never handed on is nobody's to cancel.
        if (admitted) listener.onCancel();
      },
    });
  }

  #refuse(refusal: LinesideError): void {
    const details = refusal.hint === '' ? refusal.message : `${refusal.message} (${refusal.hint})`;
    this.#call.sendStatus({ code: status[errorCatalogue[refusal.code].grpc], details });
  }

  override sendMetadata(metadata: Metadata): void {
    this.#call.sendMetadata(metadata);
  }

  /** Takes handfuls (wire.ts) apart: the callback, which asks for more, comes with the last. */
  override sendMessage(message: unknown, callback: () => void): void {
    if (!Array.isArray(message)) return this.#call.sendMessage(message, callback);
    const last = message.length - 1;
    for (let i = 0; i <= last; i++) this.#call.sendMessage(message[i], i === last ? callback : nothing);
  }

  override sendStatus(outcome: Parameters<ServerInterceptingCallInterface['sendStatus']>[0]): void {
    this.#call.sendStatus(outcome);
  }

  override startRead(): void {
    this.#call.startRead();
  }
}
