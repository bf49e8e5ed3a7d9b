/**
 * Connects to a judged target: TCP to one of its addresses and to nothing else, looked at again once it stands, then TLS.
 * No byte, not even of a handshake, goes to a peer that is not one of the target's addresses; no byte of a request to one
 * whose certificate has not been verified.
 */
import { connect, isIP, type Socket, SocketAddress } from 'node:net';
import { type SecureContext, type TLSSocket, connect as tlsConnect } from 'node:tls';
import type { Clock, Timer } from '../../../shared/base/clock.ts';
import { type Egress, EgressRefused, type Target } from '../parts.ts';

/** Where an attempt is; a deadline names it. */
export type Phase = 'resolve' | 'connect' | 'tls' | 'send' | 'wait' | 'read';

/** One attempt, as far as its connection goes. */
export interface RequestContext {
  readonly target: Target;
  readonly signal: AbortSignal;
  enter(phase: Phase): void;
}

export interface ConnectOptions {
  readonly egress: Pick<Egress, 'mayCall'>;
  readonly clock: Clock;
  readonly trust: SecureContext;
  /** Opens a TCP connection to an address. */
  readonly connect?: (address: string, port: number) => Socket;
}

/** A name's further addresses are tried beside the first when it has not answered by then (RFC 8305 says 250 ms). */
const nextAddressMs = 300;
/** A name may have hundreds of addresses. */
const maxAddresses = 6;

export async function dial(requestContext: RequestContext, connectOptions: ConnectOptions): Promise<TLSSocket> {
  const socket = await dialTcp(requestContext, connectOptions);
  requestContext.enter('tls');
  return secured(socket, requestContext, connectOptions.trust);
}

/** A TCP connection over which no byte has gone yet. */
export function dialTcp(
  requestContext: RequestContext,
  connectOptions: Omit<ConnectOptions, 'trust'>,
): Promise<Socket> {
  requestContext.enter('connect');
  return new Race(requestContext, connectOptions).run();
}

/** Whether the two are one address, however they are written. */
export function sameAddress(a: string, b: string): boolean {
  return a === b || (isIP(a) !== 0 && isIP(a) === isIP(b) && normal(a) === normal(b));
}

function normal(address: string): string {
  const family = isIP(address);
  return new SocketAddress({ address, family: family === 4 ? 'ipv4' : 'ipv6' }).address;
}

/** Whether what the socket is connected to is the target, and may be called. */
export function reaches(address: string | undefined, target: Target, egress: Pick<Egress, 'mayCall'>): boolean {
  if (address === undefined || !target.addresses.some((known) => sameAddress(known.address, address))) return false;
  return egress.mayCall(address, target.port);
}

export const ignoreError = (): void => {};

/** The target's addresses against each other, each a little after the one before: the first that stands is the connection. */
class Race {
  readonly #requestContext: RequestContext;
  readonly #connectOptions: Omit<ConnectOptions, 'trust'>;
  readonly #waiting: string[];
  readonly #running = new Set<Socket>();
  readonly #failures: Error[] = [];
  #timer: Timer | undefined;
  #settle: (result: Socket | Error) => void = () => {};

  constructor(requestContext: RequestContext, connectOptions: Omit<ConnectOptions, 'trust'>) {
    this.#requestContext = requestContext;
    this.#connectOptions = connectOptions;
    this.#waiting = requestContext.target.addresses.slice(0, maxAddresses).map(({ address }) => address);
  }

  run(): Promise<Socket> {
    const { signal } = this.#requestContext;
    return new Promise((resolve, reject) => {
      const abort = (): void => this.#settle(new Error('given up'));
      this.#settle = (result) => {
        this.#settle = () => {};
        this.#timer?.cancel();
        signal.removeEventListener('abort', abort);
        for (const socket of this.#running) if (socket !== result) socket.destroy();
        this.#running.clear();
        this.#waiting.length = 0;
        if (result instanceof Error) reject(result);
        else resolve(result);
      };
      if (signal.aborted) return abort();
      signal.addEventListener('abort', abort);
      this.#next();
    });
  }

  #next(): void {
    this.#timer?.cancel();
    const address = this.#waiting.shift();
    if (address === undefined) {
      if (this.#running.size === 0) this.#settle(mostTelling(this.#failures));
      return;
    }
    this.#start(address);
    if (this.#waiting.length > 0) this.#timer = this.#connectOptions.clock.timer(nextAddressMs, () => this.#next());
  }

  #start(address: string): void {
    const { target } = this.#requestContext;
    const { egress, connect = connectTcp } = this.#connectOptions;
    if (!egress.mayCall(address, target.port)) return this.#settle(notTheTarget(target));
    const socket = connect(address, target.port);
    this.#running.add(socket);
    socket.on('error', (error) => {
      if (!this.#running.delete(socket)) return;
      this.#failures.push(error);
      this.#next();
    });
    socket.once('connect', () => {
      const checked = reaches(socket.remoteAddress, target, egress);
      if (!checked) socket.destroy();
      this.#settle(checked ? socket : notTheTarget(target));
    });
  }
}

function connectTcp(host: string, port: number): Socket {
  return connect({ host, port, noDelay: true });
}

function notTheTarget({ hostname }: Target): EgressRefused {
  return new EgressRefused([`the connection to ${hostname} does not lead where it may`]);
}

/** Of the addresses' failures, one that came from outside, where there is one: "no route" for IPv6 says little beside "refused". */
function mostTelling(failures: readonly Error[]): Error {
  const outside = failures.find((failure) => 'code' in failure && failure.code === 'ECONNREFUSED');
  return outside ?? failures[0] ?? new Error('no address');
}

function secured(socket: Socket, { target, signal }: RequestContext, secureContext: SecureContext): Promise<TLSSocket> {
  const host = target.hostname.replace(/\.$/, '').replace(/^\[|\]$/g, '');
  const tls = tlsConnect({
    socket,
    host,
    // RFC 6066 knows no addresses as server names.
    servername: isIP(host) === 0 ? host : '',
    secureContext,
    minVersion: 'TLSv1.2',
    rejectUnauthorized: true,
    ALPNProtocols: ['http/1.1'],
  });
  // Later errors are the request's affair; without one, of a kept connection say, they do not matter.
  tls.on('error', ignoreError);
  return new Promise((resolve, reject) => {
    const end = (settle: () => void): void => {
      signal.removeEventListener('abort', abort);
      settle();
    };
    const abort = (): void => {
      tls.destroy();
      end(() => reject(new Error('given up')));
    };
    signal.addEventListener('abort', abort);
    tls.once('secureConnect', () => end(() => resolve(tls)));
    tls.once('error', (error) => end(() => reject(error)));
    tls.once('close', () => end(() => reject(new Error('closed in the handshake'))));
    if (signal.aborted) abort();
  });
}
