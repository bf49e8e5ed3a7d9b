/**
 * Kept connections, lane by lane: a subscriber's own, so that none gets another's. They are bounded in number and age, and
 * one is used again only while its address is one of those that the attempt's target has now and may still be called.
 */
import { Agent, type RequestOptions } from 'node:https';
import type { Duplex } from 'node:stream';
import type { TLSSocket } from 'node:tls';
import type { Target } from '../parts.ts';
import { type ConnectOptions, dial, type RequestContext, reaches } from './dial.ts';

/** The dispatcher makes at most as many attempts at a time for a subscription. */
const maxSocketsOfLane = 4;
const idleMs = 30_000;
/** Then a lane dials again, however busy it is: the peer's certificate is looked at again. */
const maxAgeMs = 600_000;
const maxLanes = 200;
/** Kept ones over all lanes: some 50 KB each. */
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

  agent(name: string): SubscriberAgent {
    const agent = this.#agents.get(name) ?? new SubscriberAgent(this.#connectOptions, this.#kept);
    this.#agents.delete(name);
    this.#agents.set(name, agent);
    if (this.#agents.size > maxLanes) {
      const [oldest] = this.#agents.keys();
      if (oldest !== undefined) this.close(oldest);
    }
    return agent;
  }

  /** Connections in use end with their attempts, and are not kept. */
  close(name?: string): void {
    for (const [known, agent] of this.#agents) {
      if (name !== undefined && name !== known) continue;
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
    super({ keepAlive: true, maxSockets: maxSocketsOfLane, timeout: idleMs });
    this.#connectOptions = connectOptions;
    this.#kept = kept;
  }

  /** Drops the kept connections that do not lead to the target as it is judged now; `fresh`: every one. */
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
      this.#know(socket, requestContext.target);
      give(null, socket);
    } catch (error) {
      give(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #know(socket: TLSSocket, { hostname, port }: Target): void {
    const sinceMs = this.#connectOptions.clock.monoMs();
    this.#peers.set(socket, { hostname, port, address: socket.remoteAddress, sinceMs });
    socket.once('close', () => this.#kept.delete(socket));
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
