/**
 * The remote endpoints that lineside calls: subscribers, Kafka brokers, the collector. A probe tells whether a TCP
 * connection to one can be established; it sends no byte of its own. Endpoints on this machine are not remote.
 */
import { networkInterfaces } from 'node:os';
import type { Clock } from '../../../shared/base/clock.ts';
import { type Egress, EgressRefused, type SubscriptionCache, type Target } from '../parts.ts';
import { dialTcp, sameAddress } from './dial.ts';
import type { AddressSource } from './guard.ts';

export interface Remote {
  readonly hostname: string;
  readonly port: number;
  /** A subscriber's: the egress guard decides whether it may be called. The others come from the configuration. */
  readonly guarded: boolean;
}

export interface Probed {
  /** An address of the host where its name resolves: two names of one host count as one. */
  readonly host: string;
  readonly answers: boolean;
}

export interface Remotes {
  /** Each host and port once. */
  all(): readonly Remote[];
  /** Never rejects; `signal` bounds it. undefined: it is on this machine, or may not be called. */
  probe(remote: Remote, signal: AbortSignal): Promise<Probed | undefined>;
}

export interface RemoteHostsOptions {
  readonly cache: Pick<SubscriptionCache, 'all' | 'blocked'>;
  readonly egress: Pick<Egress, 'target' | 'mayCall'> & AddressSource;
  /** "host:port" of the Kafka brokers and of the collector. */
  readonly otherRemotes: readonly string[];
  readonly clock: Clock;
}

const httpsPort = 443;

export class RemoteHosts implements Remotes {
  readonly #o: RemoteHostsOptions;

  constructor(options: RemoteHostsOptions) {
    this.#o = options;
  }

  all(): readonly Remote[] {
    const { cache, otherRemotes } = this.#o;
    const called = cache.all().filter((subscription) => subscription.active && cache.blocked(subscription) === '');
    const found = new Map<string, Remote>();
    for (const { url } of called) add(found, url, true);
    for (const address of otherRemotes) add(found, `https://${address}`, false);
    return [...found.values()];
  }

  async probe(remote: Remote, signal: AbortSignal): Promise<Probed | undefined> {
    const { clock, egress } = this.#o;
    let host = remote.hostname;
    try {
      const target = await this.#target(remote, signal);
      host = target.addresses[0]?.address ?? host;
      if (target.addresses.some(({ address }) => isHere(address))) return undefined;
      const guard = remote.guarded ? egress : { mayCall: () => true };
      const socket = await dialTcp({ target, signal, enter: () => {} }, { egress: guard, clock });
      socket.destroy();
      return { host, answers: true };
    } catch (error) {
      return error instanceof EgressRefused ? undefined : { host, answers: false };
    }
  }

  async #target({ hostname, port, guarded }: Remote, signal: AbortSignal): Promise<Target> {
    const { egress } = this.#o;
    if (guarded) return egress.target(`https://${hostname}:${port}/`, signal);
    const found = await egress.resolve(hostname.replace(/^\[|\]$/g, ''), signal);
    const addresses = found.map(({ address, family }) => ({ address, family: family === 6 ? 6 : 4 }) as const);
    return { hostname, port, addresses };
  }
}

/** The subscriber is on the device itself: it needs no route. A name that only resolves to such an address is not known as one. */
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
  const own = Object.values(networkInterfaces()).flatMap((list = []) => list);
  return address.startsWith('127.') || own.some((one) => sameAddress(one.address, address));
}
