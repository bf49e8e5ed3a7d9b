/**
 * The interceptor in front of every call: refuses callers without the right, before a byte of the message is read, and hands the
 * methods what nice-grpc's context lacks (whose connection it is, the deadline) as private metadata. The token of a stream is
 * checked again while the stream lasts.
 */
import { constants } from 'node:http2';
import type { ServerInterceptingCallInterface, ServerInterceptor } from '@grpc/grpc-js';
import type { CallContext } from 'nice-grpc';
import { GatedCall } from '../../shared/auth/gated-call.ts';
import type { AuthFailureLog } from '../../shared/base/burst-log.ts';
import type { Clock, Timer } from '../../shared/base/clock.ts';
import { LinesideError, messageOf } from '../../shared/base/errors.ts';
import { CALLER_NAME_HEADER } from '../../shared/proto/services.ts';
import type { Turn } from '../port/line.ts';
import type { Authenticator } from './access.ts';
import { Connections } from './connection.ts';
import { type Incoming, LargeMessages, type Receiving } from './large-messages.ts';
import { DEADLINE_MARGIN_MS, DEADLINE_MARGIN_PART, STREAM_REAUTH_MS } from './limits.ts';

/** Removed from what a client sends, then set here. */
const CALLER = 'lineside-internal-caller';
const NAME = 'lineside-internal-name';
const DEADLINE = 'lineside-internal-deadline';
const STREAM = 'lineside-internal-stream';
/** Longer than any token's name; it is shown to people. */
const GIVEN_NAME = /^[\x21-\x7e]{1,128}$/;

export class AuthInterceptor {
  readonly #clock: Clock;
  readonly #failures: AuthFailureLog;
  readonly #connections = new Connections();
  readonly #large = new LargeMessages();
  /** Streams that last, by the names that their contexts bear. */
  readonly #streams = new Map<string, Incoming>();
  #streamCount = 0;
  #isOpen = true;

  constructor(clock: Clock, failures: AuthFailureLog) {
    this.#clock = clock;
    this.#failures = failures;
  }

  /** From now on every call is refused with UNAVAILABLE. */
  close(): void {
    this.#isOpen = false;
  }

  /**
   * Ends a stream whose client takes nothing. A status would wait behind what was not taken: HTTP/2 has a code that clients
   * know as RESOURCE_EXHAUSTED.
   */
  endStalled(context: CallContext): void {
    this.#streams.get(context.metadata.get(STREAM) ?? '')?.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }

  /**
   * `authenticate` undefined: every caller is trusted; `mayName`: also with whose name it gives. `admitted`: called with the peer of
   * each call that may be made.
   */
  interceptor(
    authenticate: Authenticator | undefined,
    mayName: boolean,
    admitted: (peer: string) => void,
  ): ServerInterceptor {
    return ({ path, responseStream }, call) => {
      const connection = this.#connections.of(call);
      const deadline = deadlineOf(call, this.#clock);
      const incoming = this.#connections.incoming(call);
      const name = responseStream && incoming !== undefined ? this.#nameOf(incoming) : undefined;
      const gated = new LineCall(call, this.#clock, (metadata) => {
        if (!this.#isOpen) throw new LinesideError('SHUTTING_DOWN', 'the service is stopping');
        const given = String(metadata.get(CALLER_NAME_HEADER)[0] ?? '');
        for (const own of [CALLER, NAME, DEADLINE, STREAM]) metadata.remove(own);
        metadata.set(CALLER, connection.caller);
        if (name !== undefined) metadata.set(STREAM, name);
        if (deadline !== undefined) metadata.set(DEADLINE, String(deadline));
        if (mayName && GIVEN_NAME.test(given)) metadata.set(NAME, given);
        if (authenticate === undefined) return admitted(connection.peer);
        const authorization = metadata.get('authorization').map(String);
        const check = async (): Promise<void> => {
          try {
            metadata.set(NAME, await authenticate(path, authorization, connection));
          } catch (error) {
            this.#failures.note(path, connection.peer, messageOf(error));
            throw error;
          }
          admitted(connection.peer);
        };
        // A certificate belongs to its connection: it is not revoked while the connection lasts.
        if (responseStream && authorization.length > 0) gated.checkAgain(check);
        return check();
      });
      if (incoming !== undefined) gated.receive(this.#large, incoming, connection.caller);
      return gated;
    };
  }

  #nameOf(incoming: Incoming): string {
    this.#streamCount += 1;
    const name = String(this.#streamCount);
    this.#streams.set(name, incoming);
    incoming.on('close', () => this.#streams.delete(name));
    return name;
  }
}

/** Monotonic time by which an answer must be sent; grpc-js gives wall-clock time, of which only the distance counts. */
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

/** Of its token or client certificate, or the one it gave on a Unix socket; 'local': a caller on the box that needs none. */
export function nameOf(context: CallContext): string {
  return context.metadata.get(NAME) ?? 'local';
}

/** Of a call that is one of its caller's requests to the port. */
export function turnOf(context: CallContext): Turn {
  const deadline = context.metadata.get(DEADLINE);
  return {
    caller: callerOf(context),
    signal: context.signal,
    deadlineMs: deadline === undefined ? undefined : Number(deadline),
  };
}

function nothing(): void {}

class LineCall extends GatedCall {
  readonly #clock: Clock;
  #check: (() => Promise<void>) | undefined;
  #timer: Timer | undefined;
  #receiving: Receiving | undefined;

  constructor(call: ServerInterceptingCallInterface, clock: Clock, admit: ConstructorParameters<typeof GatedCall>[1]) {
    super(call, admit);
    this.#clock = clock;
  }

  receive(large: LargeMessages, incoming: Incoming, caller: string): void {
    this.#receiving = large.receive(incoming, caller, () => {
      this.refuse(new LinesideError('TOO_MANY', 'too many large messages wait on this connection'));
      // The client need not send the rest (RFC 9113, 8.1); grpc-js would read and discard it.
      incoming.close(constants.NGHTTP2_NO_ERROR);
    });
  }

  /** Once it is admitted, until it is over. */
  checkAgain(check: () => Promise<void>): void {
    this.#check = check;
  }

  protected override onAdmitted(): void {
    const check = this.#check;
    if (check === undefined || this.isOver) return;
    this.#timer = this.#clock.timer(STREAM_REAUTH_MS, () => {
      check().then(
        () => this.onAdmitted(),
        (error: unknown) => {
          if (this.isOver) return;
          this.refuse(error);
          this.cancel();
        },
      );
    });
  }

  protected override onMessage(): void {
    this.#receiving?.whole();
  }

  protected override onEnd(): void {
    this.#timer?.cancel();
    this.#receiving?.done();
  }

  /** Takes batches (wire.ts) apart: the callback, which asks for more, comes with the last. */
  override sendMessage(message: unknown, callback: () => void): void {
    if (this.isOver) return callback();
    if (!Array.isArray(message)) return this.call.sendMessage(message, callback);
    const last = message.length - 1;
    for (let i = 0; i <= last; i++) this.call.sendMessage(message[i], i === last ? callback : nothing);
  }
}
