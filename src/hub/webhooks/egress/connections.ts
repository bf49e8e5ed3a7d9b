/**
 * Connections to checked targets. A new one: TCP to one of the target's addresses only, checked again when it is
 * established, then TLS. No byte, not even of a handshake, is sent to a peer that is not one of the target's addresses; no
 * byte of a request to a peer without a verified certificate. Kept connections belong to one subscriber, are limited in
 * number and age, and are reused only while their address belongs to the attempt's target and may be called.
 */
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Agent, type RequestOptions } from 'node:https';
import { connect, isIP, type LookupFunction, type Socket, type TcpNetConnectOpts } from 'node:net';
import type { Duplex } from 'node:stream';
import {
  createSecureContext,
  getCACertificates,
  type SecureContext,
  type TLSSocket,
  connect as tlsConnect,
} from 'node:tls';
import type { Clock } from '../../../shared/base/clock.ts';
import { LinesideError, messageOf } from '../../../shared/base/errors.ts';
import { parseAddress } from './address.ts';
import { type EgressGuard, EgressRefused, type Target } from './guard.ts';

/** Of an attempt; a timeout names it. */
export type Phase = 'resolve' | 'connect' | 'tls' | 'send' | 'wait' | 'read';

export interface RequestContext {
  readonly target: Target;
  readonly signal: AbortSignal;
  phase: Phase;
}

export interface ConnectOptions {
  readonly egress: Pick<EgressGuard, 'mayCall'>;
  readonly clock: Clock;
  readonly trust: SecureContext;
  /** Opens a TCP connection. Default: Node's. */
  readonly connect?: (options: TcpNetConnectOpts) => Socket;
}

/**
 * Before the next address is tried: time for a lost SYN (1 s) over a mobile link, and after five silent addresses the sixth
 * still has some of the default webhooks.timeout_ms of 10 s.
 */
const addressTimeoutMs = 1_500;
/** A name may have hundreds of addresses. */
const maxAddresses = 6;

export async function dial(requestContext: RequestContext, connectOptions: ConnectOptions): Promise<TLSSocket> {
  const socket = await dialTcp(requestContext, connectOptions);
  requestContext.phase = 'tls';
  return secured(socket, requestContext, connectOptions.trust);
}

/** A TCP connection over which no byte was sent yet. */
export async function dialTcp(
  requestContext: RequestContext,
  { egress, connect: open = connect }: Pick<ConnectOptions, 'egress' | 'connect'>,
): Promise<Socket> {
  const { target, signal } = requestContext;
  requestContext.phase = 'connect';
  signal.throwIfAborted();
  const addresses = target.addresses.slice(0, maxAddresses);
  const [first] = addresses;
  if (first === undefined || !addresses.every(({ address }) => egress.mayCall(address, target.port))) {
    throw notTheTarget(target);
  }
  const pinned: LookupFunction = (_hostname, _options, callback) => callback(null, [...addresses]);
  const host = addresses.length === 1 ? first.address : 'pinned.invalid';
  const socket = open({
    host,
    port: target.port,
    noDelay: true,
    lookup: pinned,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: addressTimeoutMs,
  });
  socket.on('error', ignoreError);
  try {
    await once(socket, 'connect', { signal });
    if (!reaches(socket.remoteAddress, target, egress)) throw notTheTarget(target);
    return socket;
  } catch (error) {
    socket.destroy();
    throw mostTelling(error);
  }
}

function notTheTarget({ hostname }: Target): EgressRefused {
  return new EgressRefused([`the connection to ${hostname} does not lead where it may`]);
}

/** The most useful of the addresses' failures: "no route" for IPv6 says little beside "refused". */
function mostTelling(error: unknown): unknown {
  if (!(error instanceof AggregateError)) return error;
  return (
    error.errors.find(({ code }: { readonly code?: string }) => code === 'ECONNREFUSED') ?? error.errors[0] ?? error
  );
}

/** However they are written. */
export function sameAddress(a: string, b: string): boolean {
  return a === b || (parseAddress(a)?.toString() ?? a) === (parseAddress(b)?.toString() ?? b);
}

function reaches(address: string | undefined, target: Target, egress: Pick<EgressGuard, 'mayCall'>): boolean {
  if (address === undefined || !target.addresses.some((known) => sameAddress(known.address, address))) return false;
  return egress.mayCall(address, target.port);
}

export const ignoreError = (): void => {};

async function secured(
  socket: Socket,
  { target, signal }: RequestContext,
  secureContext: SecureContext,
): Promise<TLSSocket> {
  const host = target.hostname.replace(/\.$/, '').replace(/^\[|\]$/g, '');
  const tls = tlsConnect({
    socket,
    host,
    // RFC 6066 allows no addresses as server names.
    servername: isIP(host) === 0 ? host : '',
    secureContext,
    minVersion: 'TLSv1.2',
    rejectUnauthorized: true,
    ALPNProtocols: ['http/1.1'],
  });
  // Later errors reach the request; without one, as on a kept connection, they do not matter.
  tls.on('error', ignoreError);
  const closed = Promise.withResolvers<never>();
  tls.once('close', () => closed.reject(new Error('closed in the handshake')));
  try {
    await Promise.race([once(tls, 'secureConnect', { signal }), closed.promise]);
    return tls;
  } catch (error) {
    tls.destroy();
    throw error;
  }
}

/** Equals the dispatcher's limit of attempts for a subscription. */
const maxSocketsOfAgent = 4;
const idleMs = 30_000;
/** A new connection checks the peer's certificate again. */
const maxAgeMs = 600_000;
/** Kept connections of all agents: some 50 KB each. */
const maxKept = 64;

/** got and Node pass these options to the agent. */
export interface AgentOptions extends RequestOptions {
  readonly requestContext: RequestContext;
}

interface Peer {
  readonly hostname: string;
  readonly port: number;
  readonly address: string | undefined;
  readonly sinceMs: number;
}

type NodeCallback = (error: Error | null, stream: Duplex) => void;
type Give = (error: Error | null, stream?: Duplex) => void;

export class SubscriberAgent extends Agent {
  readonly #connectOptions: ConnectOptions;
  readonly #kept: Set<Duplex>;
  readonly #peers = new WeakMap<Duplex, Peer>();
  #closed = false;

  /** `kept`: the kept connections of all agents. */
  constructor(connectOptions: ConnectOptions, kept: Set<Duplex>) {
    // Without `proxyEnv`: no proxy of the environment is used.
    super({ keepAlive: true, maxSockets: maxSocketsOfAgent, timeout: idleMs });
    this.#connectOptions = connectOptions;
    this.#kept = kept;
  }

  /** Closes the kept connections that do not lead to the target as checked now; `fresh`: all. */
  prune(target: Target, fresh: boolean): void {
    this.#drop((socket) => fresh || !this.leadsTo(socket, target));
  }

  leadsTo(socket: Duplex, target: Target): boolean {
    const peer = this.#peers.get(socket);
    if (peer === undefined || peer.hostname !== target.hostname || peer.port !== target.port) return false;
    return reaches(peer.address, target, this.#connectOptions.egress);
  }

  /** Connections in use end with their attempts. */
  close(): void {
    this.#closed = true;
    this.#drop(() => true);
  }

  override createConnection(options: RequestOptions, callback: NodeCallback): undefined {
    // Node's type requires a stream beside an error; Node itself does not.
    void this.#connect((options as AgentOptions).requestContext, callback as Give);
    return undefined;
  }

  /** Called by Node when a connection becomes free; false destroys it. */
  override keepSocketAlive(socket: Duplex): boolean {
    const peer = this.#peers.get(socket);
    const old = peer === undefined || this.#connectOptions.clock.monoMs() - peer.sinceMs > maxAgeMs;
    if (this.#closed || old || this.#kept.size >= maxKept) return false;
    // False when the peer announces to close at once; the type lacks it.
    const keep: unknown = super.keepSocketAlive(socket);
    if (keep === false) return false;
    this.#kept.add(socket);
    return true;
  }

  override reuseSocket(socket: Duplex, request: Parameters<Agent['reuseSocket']>[1]): void {
    this.#kept.delete(socket);
    super.reuseSocket(socket, request);
  }

  async #connect(requestContext: RequestContext, give: Give): Promise<void> {
    try {
      const socket = await dial(requestContext, this.#connectOptions);
      const { hostname, port } = requestContext.target;
      const sinceMs = this.#connectOptions.clock.monoMs();
      this.#peers.set(socket, { hostname, port, address: socket.remoteAddress, sinceMs });
      socket.once('close', () => this.#kept.delete(socket));
      give(null, socket);
    } catch (error) {
      give(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #drop(which: (socket: Duplex) => boolean): void {
    for (const socket of Object.values(this.freeSockets).flatMap((sockets) => [...(sockets ?? [])])) {
      if (!which(socket)) continue;
      this.#kept.delete(socket);
      // Removes it from the agent at once; its 'close' comes later.
      socket.emit('agentRemove');
      socket.destroy();
    }
  }
}

const block = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/** Trusts Node's roots and the certificates of webhooks.ca_file ('': none). Throws CONFIG_INVALID. */
export function readTrust(caFile: string): SecureContext {
  // Without a list Node's roots are those that all contexts share: 1 MB less than a copy of them.
  const more = caFile === '' ? {} : { ca: [...getCACertificates('default'), ...certificatesOf(caFile)] };
  return createSecureContext({ minVersion: 'TLSv1.2', ...more });
}

function certificatesOf(file: string): readonly string[] {
  try {
    const found = readFileSync(file, 'utf8').match(block) ?? [];
    if (found.length === 0) throw new Error('it holds no certificate in PEM form');
    return found.map((pem) => new X509Certificate(pem).toString());
  } catch (error) {
    throw new LinesideError('CONFIG_INVALID', `webhooks.ca_file ${file} cannot be used: ${messageOf(error)}`, {
      cause: error,
      hint: 'name a file with the certificates of the authorities in PEM form, or leave the key empty',
    });
  }
}
