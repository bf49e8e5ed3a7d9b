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
import {
  AHEAD_BYTES,
  DEADLINE_MARGIN_MS,
  DEADLINE_MARGIN_PART,
  MESSAGE_COST_BYTES,
  STREAM_REAUTH_MS,
} from './limits.ts';
import type { Outgoing } from './subscriptions.ts';

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
  readonly #streams = new Map<string, LineCall>();
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

  /** The way to the client of a stream. */
  outgoing(context: CallContext): Outgoing {
    const call = this.#streams.get(context.metadata.get(STREAM) ?? '');
    // It is there from before its method is called until the stream is closed.
    if (call === undefined) throw new LinesideError('NOT_SENT', 'the stream is over');
    return call;
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
      const name = responseStream ? String((this.#streamCount += 1)) : undefined;
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
        if (responseStream && authorization.length > 0) gated.check = check;
        return check();
      });
      if (incoming !== undefined) gated.receive(this.#large, incoming, connection.caller);
      if (name === undefined) return gated;
      this.#streams.set(name, gated);
      gated.whenOver = () => void this.#streams.delete(name);
      return gated;
    };
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

class LineCall extends GatedCall implements Outgoing {
  readonly #clock: Clock;
  /** Done again once it is admitted, until it is over. */
  check: (() => Promise<void>) | undefined;
  whenOver = (): void => {};
  #timer: Timer | undefined;
  #incoming: Incoming | undefined;
  #receiving: Receiving | undefined;
  /** Of messages that were handed over and not taken. */
  #aheadBytes = 0;
  #room: PromiseWithResolvers<void> | undefined;

  constructor(call: ServerInterceptingCallInterface, clock: Clock, admit: ConstructorParameters<typeof GatedCall>[1]) {
    super(call, admit);
    this.#clock = clock;
  }

  receive(large: LargeMessages, incoming: Incoming, caller: string): void {
    this.#incoming = incoming;
    this.#receiving = large.receive(incoming, caller, () => {
      this.refuse(new LinesideError('TOO_MANY', 'too many large messages wait on this connection'));
      // The client need not send the rest (RFC 9113, 8.1); grpc-js would read and discard it.
      incoming.close(constants.NGHTTP2_NO_ERROR);
    });
  }

  send(message: Uint8Array): Promise<void> | undefined {
    if (this.isOver) return undefined;
    const bytes = message.length + MESSAGE_COST_BYTES;
    this.#aheadBytes += bytes;
    this.call.sendMessage(message, () => {
      this.#aheadBytes -= bytes;
      if (this.#aheadBytes <= AHEAD_BYTES / 2) this.#endWait();
    });
    if (this.#aheadBytes < AHEAD_BYTES) return undefined;
    this.#room ??= Promise.withResolvers();
    return this.#room.promise;
  }

  #endWait(): void {
    this.#room?.resolve();
    this.#room = undefined;
  }

  endStalled(): void {
    this.#incoming?.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
  }

  protected override onAdmitted(): void {
    const { check } = this;
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
    this.whenOver();
    this.#endWait();
  }
}
