/**
 * Whether the device is offline: it has no route, or none of the remote hosts that it calls (at least two) accepts a
 * connection. The state begins with an attempt that failed before its connection was established. It ends when there is a
 * route again, or with the first connection that is established.
 */
import { readFileSync } from 'node:fs';
import type { Clock, Timer } from '../../../shared/base/clock.ts';
import { dialTcp, sameAddress } from '../egress/connections.ts';
import { httpsPort } from '../egress/endpoint.ts';
import { type EgressGuard, EgressRefused, interfaceAddresses, type Target } from '../egress/guard.ts';
import type { Resolver } from '../egress/resolver.ts';
import type { SubscriptionCache } from '../subscriptions/cache.ts';

export type OfflineReason = 'no route' | 'no host answers';

export interface OfflineOptions {
  /** Whether the device has a route. */
  readonly online: () => boolean;
  readonly remotes: Pick<RemoteHosts, 'all' | 'probe'>;
  readonly clock: Clock;
  /** undefined: online again. */
  readonly onChanged: (reason: OfflineReason | undefined) => void;
}

/** Reading the kernel's tables costs no traffic. */
const routePollMs = 5_000;
/**
 * Two endpoints each 10 s: an unanswered probe sends two SYNs of 60 bytes, together about 2 MB a day, and a restored
 * network is noticed within 13 s.
 */
export const probeEveryMs = 10_000;
const probesEachRound = 2;
/** Over a link with longer round trips no delivery completes within webhooks.timeout_ms of 10 s either. */
export const probeLimitMs = 3_000;
/** To find out whether the device is offline; the rounds probe the others. */
const maxProbes = 16;
const minHosts = 2;

export class Offline {
  readonly #o: OfflineOptions;
  readonly #stopping = new AbortController();
  #reason: OfflineReason | undefined;
  #timer: Timer | undefined;
  /** Last connection to a remote host, monotonic. */
  #reachedMs = Number.NEGATIVE_INFINITY;
  #asking: Promise<number> | undefined;
  #rounds = 0;

  constructor(options: OfflineOptions) {
    this.#o = options;
  }

  get is(): boolean {
    return this.#reason !== undefined;
  }

  /** Whether an attempt that began at `beganMs` (monotonic) established no connection because the device is offline. */
  async ask(beganMs: number): Promise<boolean> {
    const { online, remotes } = this.#o;
    if (this.is) return true;
    if (!online()) return this.#begin('no route');
    if (this.#reachedMs >= beganMs) return false;
    const all = remotes.all();
    if (hostsOf(all) < minHosts) return false;
    this.#asking ??= this.#silentHosts(all).finally(() => {
      this.#asking = undefined;
    });
    const silent = await this.#asking;
    if (this.is) return true;
    return silent >= minHosts && this.#reachedMs < beganMs && this.#begin('no host answers');
  }

  /** A connection to a remote host was established. */
  reached(): void {
    this.#reachedMs = this.#o.clock.monoMs();
    if (this.#reason === 'no host answers') this.#end();
  }

  stop(): void {
    this.#stopping.abort();
    this.#timer?.cancel();
  }

  #begin(reason: OfflineReason): true {
    if (this.#stopping.signal.aborted) return true;
    this.#reason = reason;
    this.#poll();
    this.#o.onChanged(reason);
    return true;
  }

  #end(): void {
    this.#timer?.cancel();
    this.#reason = undefined;
    this.#o.onChanged(undefined);
  }

  #poll(): void {
    const { clock, online } = this.#o;
    this.#timer?.cancel();
    if (this.#reason === 'no host answers') {
      this.#timer = clock.timer(probeEveryMs, () => void this.#round());
    } else {
      this.#timer = clock.timer(routePollMs, () => (online() ? this.#end() : this.#poll()));
    }
  }

  async #round(): Promise<void> {
    const { online, remotes } = this.#o;
    const all = remotes.all();
    if (hostsOf(all) < minHosts) return this.#end();
    const first = (this.#rounds++ * probesEachRound) % all.length;
    const turn = [...all.slice(first), ...all.slice(0, first)].slice(0, probesEachRound);
    // A connection ends the state by reached().
    if (online()) await this.#silentHosts(turn);
    if (this.is && !this.#stopping.signal.aborted) this.#poll();
  }

  /** Number of hosts that accept no connection; 0 as soon as one does. */
  async #silentHosts(all: readonly Remote[]): Promise<number> {
    const silent = new Set<string>();
    const over = new AbortController();
    const signal = AbortSignal.any([this.#stopping.signal, over.signal]);
    const timer = this.#o.clock.timer(probeLimitMs, () => over.abort());
    const answer = async (remote: Remote): Promise<void> => {
      const probed = await this.#o.remotes.probe(remote, signal);
      if (probed?.answers === true) return this.reached();
      if (probed !== undefined) silent.add(probed.host);
      throw new Error('no connection');
    };
    try {
      await Promise.any(all.slice(0, maxProbes).map(answer));
      return 0;
    } catch {
      return silent.size;
    } finally {
      timer.cancel();
      over.abort();
    }
  }
}

function hostsOf(remotes: readonly Remote[]): number {
  return new Set(remotes.map(({ hostname }) => hostname)).size;
}

export interface Remote {
  readonly hostname: string;
  readonly port: number;
  /** True: a subscriber's, which the egress guard must allow. False: from the configuration. */
  readonly guarded: boolean;
}

export interface Probed {
  /** Its address when its name resolves, so that two names of one host count as one. */
  readonly host: string;
  readonly answers: boolean;
}

export interface RemoteHostsOptions {
  readonly cache: Pick<SubscriptionCache, 'all' | 'blocked'>;
  readonly egress: Pick<EgressGuard, 'target' | 'mayCall'>;
  readonly resolver: Pick<Resolver, 'resolve'>;
  /** "host:port" of the Kafka brokers and of the collector. */
  readonly otherRemotes: readonly string[];
}

/**
 * The remote endpoints that lineside calls: subscribers, Kafka brokers, the collector. A probe opens a TCP connection and
 * sends no byte over it. Endpoints on this machine are not remote.
 */
export class RemoteHosts {
  readonly #o: RemoteHostsOptions;

  constructor(options: RemoteHostsOptions) {
    this.#o = options;
  }

  /** Each host and port once. */
  all(): readonly Remote[] {
    const { cache, otherRemotes } = this.#o;
    const called = cache.all().filter((subscription) => subscription.active && cache.blocked(subscription) === '');
    const found = new Map<string, Remote>();
    for (const { url } of called) add(found, url, true);
    for (const address of otherRemotes) add(found, `https://${address}`, false);
    return [...found.values()];
  }

  /** Never rejects. undefined: it is on this machine, or must not be called. */
  async probe(remote: Remote, signal: AbortSignal): Promise<Probed | undefined> {
    const { egress } = this.#o;
    let host = remote.hostname;
    try {
      const target = await this.#target(remote, signal);
      host = target.addresses[0]?.address ?? host;
      if (target.addresses.some(({ address }) => isHere(address))) return undefined;
      const guard = remote.guarded ? egress : { mayCall: () => true };
      const socket = await dialTcp({ target, signal, phase: 'connect' }, { egress: guard });
      socket.destroy();
      return { host, answers: true };
    } catch (error) {
      return error instanceof EgressRefused ? undefined : { host, answers: false };
    }
  }

  async #target({ hostname, port, guarded }: Remote, signal: AbortSignal): Promise<Target> {
    const { egress, resolver } = this.#o;
    if (guarded) return egress.target(`https://${hostname}:${port}/`, signal);
    const found = await resolver.resolve(hostname.replace(/^\[|\]$/g, ''), signal);
    const addresses = found.map(({ address, family }) => ({ address, family: family === 6 ? 6 : 4 }) as const);
    return { hostname, port, addresses };
  }
}

/** The subscriber is on the device itself, by its URL; its name is not resolved. */
export function needsNoRoute(url: string): boolean {
  const host = URL.parse(url)?.hostname ?? '';
  return /^(127\.\d+\.\d+\.\d+|\[::1\]|(.+\.)?localhost\.?)$/.test(host);
}

function add(to: Map<string, Remote>, url: string, guarded: boolean): void {
  const parsed = URL.parse(url);
  if (parsed === null || needsNoRoute(url) || to.has(parsed.host)) return;
  const port = parsed.port === '' ? httpsPort : Number(parsed.port);
  to.set(parsed.host, { hostname: parsed.hostname, port, guarded });
}

function isHere(address: string): boolean {
  return address.startsWith('127.') || interfaceAddresses().some((own) => sameAddress(own, address));
}

/** Flags of linux/route.h and linux/ipv6_route.h. */
const RTF_UP = 0x0000_0001;
const RTF_REJECT = 0x0000_0200;
const RTF_ANYCAST = 0x0010_0000;
const RTF_LOCAL = 0x8000_0000;

/** The kernel's tables: which column holds what, and destinations that lead nowhere. */
const tables = [
  {
    // Addresses in hex, the first byte last (little-endian machines).
    path: '/proc/net/route',
    columns: { name: 0, destination: 1, flags: 3 },
    address: /^[\dA-F]{8}$/i,
    // Loopback, 169.254.0.0/16, 224.0.0.0/4.
    nowhere: /(7F|FEA9|E[\dA-F])$/i,
  },
  {
    path: '/proc/net/ipv6_route',
    columns: { destination: 0, flags: 8, name: 9 },
    address: /^[\da-f]{32}$/i,
    // fe80::/10, ff00::/8.
    nowhere: /^(fe[89ab]|ff)/i,
  },
] as const;

/** Whether the tables hold a usable route. True also when none can be read: then attempts find out. */
export function hasRoute(readFile: (path: string) => string = (path) => readFileSync(path, 'utf8')): boolean {
  const found = tables.map((table) => routeIn(table, readFile)).filter((is) => is !== undefined);
  return found.length === 0 || found.includes(true);
}

/** undefined: it cannot be read. A kernel without IPv6 has no table of it. */
function routeIn(table: (typeof tables)[number], readFile: (path: string) => string): boolean | undefined {
  let text: string;
  try {
    text = readFile(table.path);
  } catch {
    return undefined;
  }
  const { columns, address, nowhere } = table;
  const rows = text.split('\n').map((line) => line.trim().split(/\s+/));
  return rows.some((row) => {
    const [name, destination = '', flags = ''] = [row[columns.name], row[columns.destination], row[columns.flags]];
    if (name === 'lo' || !address.test(destination) || nowhere.test(destination)) return false;
    const bits = Number.parseInt(flags, 16);
    return (bits & RTF_UP) !== 0 && (bits & (RTF_REJECT | RTF_ANYCAST | RTF_LOCAL)) === 0;
  });
}
