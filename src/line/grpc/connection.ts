/**
 * Connections: what is behind a call, and how long one from another machine may stay without a call.
 *
 * What is behind a call: one connection, its certificate, its key for fairness. grpc-js gives an interceptor the peer's
 * address, which is the same ("unknown") for everyone on a Unix socket, and would parse the certificate again for each
 * call. So this looks for the HTTP/2 session inside its call, and does without where a later version hides it.
 */
import type { Socket } from 'node:net';
import type { ServerInterceptingCallInterface } from '@grpc/grpc-js';
import type { Clock, Timer } from '../../shared/base/clock.ts';
import { AddressShare } from '../../shared/base/listeners.ts';
import type { Incoming } from './large-messages.ts';
import { MAX_CONNECTIONS, MAX_NEWCOMER_MS } from './limits.ts';

export interface Connection {
  /** The same for all calls of a connection. */
  readonly caller: string;
  readonly peer: string;
  /** Common name of a client certificate that the configured authority signed and that is valid; else undefined. */
  readonly certificate: string | undefined;
  /** Why the certificate that was shown does not count; undefined where it does, or none was shown. */
  readonly certificateFault: string | undefined;
}

export class Connections {
  readonly #known = new WeakMap<object, Connection>();
  #count = 0;

  of(call: ServerInterceptingCallInterface): Connection {
    const session = property(property(call, 'stream'), 'session');
    if (typeof session !== 'object' || session === null) return this.#describe(call, undefined);
    let connection = this.#known.get(session);
    if (connection === undefined) {
      connection = this.#describe(call, session);
      this.#known.set(session, connection);
    }
    return connection;
  }

  /** What arrives for the call; undefined if grpc-js hides it. */
  incoming(call: ServerInterceptingCallInterface): Incoming | undefined {
    const stream = property(call, 'stream');
    const isHere = ['on', 'pause', 'resume', 'close'].every((name) => typeof property(stream, name) === 'function');
    return isHere ? (stream as Incoming) : undefined;
  }

  #describe(call: ServerInterceptingCallInterface, session: object | undefined): Connection {
    const peer = call.getPeer();
    this.#count += 1;
    const certificate = call.getAuthContext().sslPeerCertificate;
    const name = certificate?.subject.CN;
    return {
      caller: session === undefined ? peer : `c${this.#count}`,
      peer,
      // Two common names would let a certificate pick which one counts.
      certificate: typeof name === 'string' ? name : undefined,
      certificateFault: certificate === undefined ? faultOf(property(session, 'socket')) : undefined,
    };
  }
}

/**
 * Connections from other machines: each address has a share of them, and one without a call with good credentials in time is
 * closed. Otherwise strangers could hold all of them.
 */
export class Newcomers {
  readonly #clock: Clock;
  readonly #dropped: (peer: string, why: string) => void;
  readonly #share = new AddressShare(MAX_CONNECTIONS);
  /** By the name that grpc-js gives a peer. */
  readonly #timers = new Map<string, Timer>();

  constructor(clock: Clock, dropped: (peer: string, why: string) => void) {
    this.#clock = clock;
    this.#dropped = dropped;
  }

  /** False: the connection was closed. */
  add(socket: Socket): boolean {
    const { remoteAddress = '', remotePort } = socket;
    if (!this.#share.admits(socket)) {
      this.#dropped(remoteAddress, 'this address has its share of the connections');
      socket.destroy();
      return false;
    }
    const peer = `${remoteAddress}:${remotePort}`;
    this.#timers.set(
      peer,
      this.#clock.timer(MAX_NEWCOMER_MS, () => {
        this.#dropped(remoteAddress, `no call with credentials within ${MAX_NEWCOMER_MS / 1_000} s`);
        socket.destroy();
      }),
    );
    socket.once('close', () => this.admitted(peer));
    return true;
  }

  /** It made a call that it may make: its connection may stay. */
  admitted(peer: string): void {
    this.#timers.get(peer)?.cancel();
    this.#timers.delete(peer);
  }
}

function faultOf(socket: unknown): string | undefined {
  const fault = property(socket, 'authorizationError');
  const shown = property(socket, 'getPeerCertificate');
  if (typeof fault !== 'string' || typeof shown !== 'function') return undefined;
  const certificate: unknown = Reflect.apply(shown, socket, []);
  return property(certificate, 'raw') === undefined ? undefined : fault;
}

function property(of: unknown, name: string): unknown {
  return typeof of === 'object' && of !== null ? Reflect.get(of, name) : undefined;
}
