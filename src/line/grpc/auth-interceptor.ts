/**
 * The interceptor in front of every call: refuses who may not, before a byte of the message is read, and hands the
 * methods what nice-grpc's context lacks (whose connection it is, the deadline) as private metadata. Of a stream it judges
 * the token again while it lasts. nice-grpc passes its options on to grpc-js, `interceptors` among them.
 */
import { constants } from 'node:http2';
import {
  type Metadata,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
  status,
} from '@grpc/grpc-js';
import type { CallContext } from 'nice-grpc';
import type { AuthFailureLog } from '../../shared/base/auth-failure-log.ts';
import type { Clock, Timer } from '../../shared/base/clock.ts';
import { errorCatalogue, LinesideError } from '../../shared/base/errors.ts';
import { type Connection, Connections } from './connection.ts';
import type { Authenticator, Refusal } from './credentials.ts';
import { type Incoming, LargeMessages, type Receiving } from './large-messages.ts';
import { DEADLINE_MARGIN_MS, DEADLINE_MARGIN_PART, STREAM_JUDGE_MS } from './limits.ts';

/** Removed from what a client sends, then set here. */
const CALLER = 'lineside-internal-caller';
const DEADLINE = 'lineside-internal-deadline';

export interface AuthInterceptor {
  /** `admitted`: called with the peer of each call that may be made. */
  interceptor(authenticate: Authenticator | undefined, admitted?: (peer: string) => void): ServerInterceptor;
  /** From now on every call is refused with UNAVAILABLE. */
  close(): void;
}

export function createAuthInterceptor(clock: Clock, refused: AuthFailureLog): AuthInterceptor {
  const connections = new Connections();
  const large = new LargeMessages();
  let open = true;
  const admit = async (
    authenticate: Authenticator,
    path: string,
    authorization: Authorization,
    connection: Connection,
  ) => {
    const refusal = await authenticate(path, authorization, connection);
    if (refusal !== undefined) refused.note(path, connection.peer, refusal.message);
    return refusal;
  };
  return {
    interceptor: (authenticate, admitted) => (method, call) => {
      const connection = connections.of(call);
      const deadline = deadlineOf(call, clock);
      const gated = new GatedCall(call, clock, (metadata) => {
        if (!open) return new LinesideError('SHUTTING_DOWN', 'the service is stopping');
        metadata.remove(CALLER);
        metadata.remove(DEADLINE);
        metadata.set(CALLER, connection.caller);
        if (deadline !== undefined) metadata.set(DEADLINE, String(deadline));
        if (authenticate === undefined) {
          admitted?.(connection.peer);
          return undefined;
        }
        const authorization = metadata.get('authorization').map(String);
        const judged = async (): Promise<Refusal> => {
          const refusal = await admit(authenticate, method.path, authorization, connection);
          if (refusal === undefined) admitted?.(connection.peer);
          return refusal;
        };
        // A certificate is its connection's: it is not taken back while that lasts.
        if (method.responseStream && authorization.length > 0) gated.judgeAgain(judged);
        return judged();
      });
      const incoming = connections.incoming(call);
      if (incoming !== undefined) gated.receive(large, incoming, connection.caller);
      return gated;
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
type Authorization = readonly string[];
type Admit = (metadata: Metadata) => Refusal | Promise<Refusal>;

/** Passes messages straight through: the class it extends would wrap each in closures. */
class GatedCall extends ServerInterceptingCall {
  readonly #call: ServerInterceptingCallInterface;
  readonly #clock: Clock;
  readonly #admit: Admit;
  #authenticate: (() => Promise<Refusal>) | undefined;
  #timer: Timer | undefined;
  #receiving: Receiving | undefined;
  /** Its status is on its way, or its client is gone. */
  #over = false;

  constructor(call: ServerInterceptingCallInterface, clock: Clock, admit: Admit) {
    super(call);
    this.#call = call;
    this.#clock = clock;
    this.#admit = admit;
  }

  receive(large: LargeMessages, incoming: Incoming, caller: string): void {
    this.#receiving = large.receive(incoming, caller, () => {
      this.#refuse(new LinesideError('TOO_MANY', 'too many large messages wait on this connection'));
      // The client need not send the rest (RFC 9113, 8.1); grpc-js would read it away.
      incoming.close(constants.NGHTTP2_NO_ERROR);
    });
  }

  /** Once it is admitted, until it is over. */
  judgeAgain(authenticate: () => Promise<Refusal>): void {
    this.#authenticate = authenticate;
  }

  override start(listener: InterceptingServerListener): void {
    let admitted = false;
    let cancelled = false;
    const settle = (metadata: Metadata, refusal: Refusal): void => {
      if (cancelled) return;
      if (refusal !== undefined) return this.#refuse(refusal);
      admitted = true;
      this.#judgeLater(() => cancel());
      listener.onReceiveMetadata(metadata);
    };
    const cancel = (): void => {
      this.#end();
      if (cancelled) return;
      cancelled = true;
      // A call that was never handed on has nothing to cancel.
      if (admitted) listener.onCancel();
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
      // What comes after a stream was ended by its token must not reach the line.
      onReceiveMessage: (message) => {
        this.#receiving?.whole();
        if (!cancelled) listener.onReceiveMessage(message);
      },
      onReceiveHalfClose: () => {
        if (!cancelled) listener.onReceiveHalfClose();
      },
      onCancel: cancel,
    });
  }

  #judgeLater(cancel: () => void): void {
    const authenticate = this.#authenticate;
    if (authenticate === undefined || this.#over) return;
    this.#timer = this.#clock.timer(STREAM_JUDGE_MS, () => {
      const settle = (refusal: Refusal): void => {
        if (this.#over) return;
        if (refusal === undefined) return this.#judgeLater(cancel);
        this.#refuse(refusal);
        cancel();
      };
      authenticate().then(settle, (error: unknown) =>
        settle(new LinesideError('INTERNAL', 'judging the caller', { cause: error })),
      );
    });
  }

  #end(): void {
    this.#over = true;
    this.#timer?.cancel();
    this.#receiving?.done();
  }

  #refuse(refusal: LinesideError): void {
    this.#end();
    const details = refusal.hint === '' ? refusal.message : `${refusal.message} (${refusal.hint})`;
    this.#call.sendStatus({ code: status[errorCatalogue[refusal.code].grpc], details });
  }

  override sendMetadata(metadata: Metadata): void {
    if (this.#over) return;
    this.#call.sendMetadata(metadata);
  }

  /** Takes handfuls (wire.ts) apart: the callback, which asks for more, comes with the last. */
  override sendMessage(message: unknown, callback: () => void): void {
    if (this.#over) return callback();
    if (!Array.isArray(message)) return this.#call.sendMessage(message, callback);
    const last = message.length - 1;
    for (let i = 0; i <= last; i++) this.#call.sendMessage(message[i], i === last ? callback : nothing);
  }

  override sendStatus(outcome: Parameters<ServerInterceptingCallInterface['sendStatus']>[0]): void {
    if (this.#over) return;
    this.#end();
    this.#call.sendStatus(outcome);
  }

  override startRead(): void {
    this.#call.startRead();
  }
}
