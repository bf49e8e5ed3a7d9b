/**
 * Connections to checked targets. A new one: TCP to one of the target's addresses and to nothing else, checked again once
 * it stands, then TLS. No byte, not even of a handshake, goes to a peer that is not one of the target's addresses; no byte of
 * a request to one whose certificate has not been verified. Kept ones belong to one subscriber, are bounded in number and
 * age, and are used again only while their address is one that the attempt's target has now and may still be called.
 */
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { Agent, type RequestOptions } from 'node:https';
import { connect, isIP, type LookupFunction, type Socket, SocketAddress, type TcpNetConnectOpts } from 'node:net';
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
import { type EgressGuard, EgressRefused, type Target } from './guard.ts';

/** Where an attempt is; a deadline names it. */
export type Phase = 'resolve' | 'connect' | 'tls' | 'send' | 'wait' | 'read';

/** One attempt, as far as its connection goes. */
export interface RequestContext {
  readonly target: Target;
  readonly signal: AbortSignal;
  enter(phase: Phase): void;
}

export interface ConnectOptions {
  readonly egress: Pick<EgressGuard, 'mayCall'>;
  readonly clock: Clock;
  readonly trust: SecureContext;
  /** Opens a TCP connection. Default: Node's. */
  readonly connect?: (options: TcpNetConnectOpts) => Socket;
}

/**
 * An address that has not answered by then is given up for the next one: time for a lost SYN (1 s) over a mobile link, and
 * five silent addresses leave the sixth some of the 10 s that webhooks.timeout_ms has by default.
 */
const addressTimeoutMs = 1_500;
/** A name may have hundreds of addresses. */
const maxAddresses = 6;

export async function dial(requestContext: RequestContext, connectOptions: ConnectOptions): Promise<TLSSocket> {
  const socket = await dialTcp(requestContext, connectOptions);
  requestContext.enter('tls');
  return secured(socket, requestContext, connectOptions.trust);
}

/** A TCP connection over which no byte has gone yet. */
export async function dialTcp(
  requestContext: RequestContext,
  { egress, connect: open = connect }: Pick<ConnectOptions, 'egress' | 'connect'>,
): Promise<Socket> {
  const { target, signal } = requestContext;
  requestContext.enter('connect');
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

/** Of the addresses' failures, one that came from outside, where there is one: "no route" for IPv6 says little beside "refused". */
function mostTelling(error: unknown): unknown {
  if (!(error instanceof AggregateError)) return error;
  return (
    error.errors.find(({ code }: { readonly code?: string }) => code === 'ECONNREFUSED') ?? error.errors[0] ?? error
  );
}

/** Whether the two are one address, however they are written. */
export function sameAddress(a: string, b: string): boolean {
  return a === b || (isIP(a) !== 0 && isIP(a) === isIP(b) && normal(a) === normal(b));
}

function normal(address: string): string {
  return new SocketAddress({ address, family: isIP(address) === 4 ? 'ipv4' : 'ipv6' }).address;
}

/** Whether what the socket is connected to is the target, and may be called. */
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
    // RFC 6066 knows no addresses as server names.
    servername: isIP(host) === 0 ? host : '',
    secureContext,
    minVersion: 'TLSv1.2',
    rejectUnauthorized: true,
    ALPNProtocols: ['http/1.1'],
  });
  // Later errors are the request's affair; without one, of a kept connection say, they do not matter.
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

/** The dispatcher makes at most as many attempts at a time for a subscription. */
const maxSocketsOfAgent = 4;
const idleMs = 30_000;
/** Then an agent dials again, however busy it is: the peer's certificate is checked again. */
const maxAgeMs = 600_000;
const maxAgents = 200;
/** Kept ones over all agents: some 50 KB each. */
const maxKept = 64;

/** Request options that have come through got and Node to the agent. */
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

export class SubscriberAgents {
  readonly #connectOptions: ConnectOptions;
  /** The least recently used first. */
  readonly #agents = new Map<string, SubscriberAgent>();
  readonly #kept = new Set<Duplex>();

  constructor(connectOptions: ConnectOptions) {
    this.#connectOptions = connectOptions;
  }

  agent(key: string): SubscriberAgent {
    const agent = this.#agents.get(key) ?? new SubscriberAgent(this.#connectOptions, this.#kept);
    this.#agents.delete(key);
    this.#agents.set(key, agent);
    if (this.#agents.size > maxAgents) {
      const [oldest] = this.#agents.keys();
      if (oldest !== undefined) this.close(oldest);
    }
    return agent;
  }

  /** Connections in use end with their attempts, and are not kept. */
  close(key?: string): void {
    for (const [known, agent] of this.#agents) {
      if (key !== undefined && key !== known) continue;
      this.#agents.delete(known);
      agent.close();
    }
  }
}

export class SubscriberAgent extends Agent {
  readonly #connectOptions: ConnectOptions;
  readonly #kept: Set<Duplex>;
  readonly #peers = new WeakMap<Duplex, Peer>();
  #closed = false;

  constructor(connectOptions: ConnectOptions, kept: Set<Duplex>) {
    // Neither `proxyEnv` nor Node's own way to connect: no proxy of the environment comes between.
    super({ keepAlive: true, maxSockets: maxSocketsOfAgent, timeout: idleMs });
    this.#connectOptions = connectOptions;
    this.#kept = kept;
  }

  /** Drops the kept connections that do not lead to the target as it is checked now; `fresh`: every one. */
  prune(target: Target, fresh: boolean): void {
    this.#drop((socket) => fresh || !this.leadsTo(socket, target));
  }

  leadsTo(socket: Duplex, target: Target): boolean {
    const peer = this.#peers.get(socket);
    if (peer === undefined || peer.hostname !== target.hostname || peer.port !== target.port) return false;
    return reaches(peer.address, target, this.#connectOptions.egress);
  }

  close(): void {
    this.#closed = true;
    this.#drop(() => true);
  }

  override createConnection(options: RequestOptions, callback: NodeCallback): undefined {
    // Node's type asks for a stream beside an error; Node itself does not.
    void this.#connect((options as AgentOptions).requestContext, callback as Give);
    return undefined;
  }

  /** Node asks here whether a connection that has become free is kept: false destroys it. */
  override keepSocketAlive(socket: Duplex): boolean {
    const peer = this.#peers.get(socket);
    const old = peer === undefined || this.#connectOptions.clock.monoMs() - peer.sinceMs > maxAgeMs;
    if (this.#closed || old || this.#kept.size >= maxKept) return false;
    // Says false for a peer that announces to close at once; the type does not know.
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
      // Takes it out of the agent in this moment; its 'close' comes later.
      socket.emit('agentRemove');
      socket.destroy();
    }
  }
}

const block = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/** Trusted are Node's roots, and the certificates of webhooks.ca_file ('': none). CONFIG_INVALID where the file cannot be read or holds no certificate. */
export function readTrust(caFile: string): SecureContext {
  const own = caFile === '' ? [] : certificatesOf(caFile);
  return createSecureContext({ minVersion: 'TLSv1.2', ca: [...getCACertificates('default'), ...own] });
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
