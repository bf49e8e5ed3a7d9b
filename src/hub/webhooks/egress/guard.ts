/**
 * The egress guard: the only check of where the device may call, at registration, at test-ping and at each connection.
 * All addresses of a name are checked, and only these are dialled.
 */
import { networkInterfaces } from 'node:os';
import type { Clock } from '../../../shared/base/clock.ts';
import { messageOf } from '../../../shared/base/errors.ts';
import { type Address, cidr, parseAddress } from './address.ts';
import { addressFaults, type EgressPolicy, type Endpoint, endpointFaults, mayCallAt, parseUrl } from './endpoint.ts';
import { NameUnresolved, type Resolver } from './resolver.ts';

export interface EgressGuardOptions {
  /** webhooks.allow_cidrs. */
  readonly allowCidrs: readonly string[];
  /** webhooks.allow_ports: for public addresses; within allow_cidrs every port is open. */
  readonly allowPorts: readonly number[];
  readonly resolver: Pick<Resolver, 'resolve'>;
  readonly clock: Clock;
  /** The device's addresses. Default: those of its network interfaces. */
  readonly ownAddresses?: () => readonly string[];
}

export interface Target {
  readonly hostname: string;
  readonly port: number;
  /** All addresses of the name, or the literal; each may be called, and nothing else is dialled. */
  readonly addresses: readonly { readonly address: string; readonly family: 4 | 6 }[];
}

export class EgressRefused extends Error {
  override readonly name = 'EgressRefused';
  readonly reasons: readonly string[];
  constructor(reasons: readonly string[]) {
    super(reasons.join('; '));
    this.reasons = reasons;
  }
}

/** A registration does not wait longer for a name: an operator waits, and each connection checks again. */
const registrationLookupMs = 2_000;
/** Listing the device's addresses takes 1 ms on a small board, and each attempt needs them several times. */
const keepOwnMs = 1_000;

export class EgressGuard {
  readonly #o: EgressGuardOptions;
  readonly #allow: EgressPolicy['allow'];
  #own: { readonly addresses: readonly Address[]; readonly untilMs: number } | undefined;

  constructor(options: EgressGuardOptions) {
    this.#o = options;
    this.#allow = options.allowCidrs.map(cidr);
  }

  /** All faults of a URL: of its form, and of its addresses if its name resolves within 2 s (each call checks again). */
  async faults(url: string): Promise<readonly string[]> {
    try {
      return await this.#faults(url);
    } catch (error) {
      if (error instanceof EgressRefused) return error.reasons;
      throw error;
    }
  }

  async #faults(url: string): Promise<readonly string[]> {
    const { faults, endpoint } = parseUrl(url);
    if (endpoint === undefined) return faults;
    const policy = this.#policy();
    const known = [...faults, ...endpointFaults(endpoint, policy)];
    if (endpoint.literal !== undefined || (endpoint.local && policy.allow.length === 0)) return known;
    const addresses = await this.#resolveSoon(endpoint.hostname);
    return [...new Set([...known, ...addressFaults(endpoint, addresses, policy)])];
  }

  /** Resolves and checks. Rejects with EgressRefused or NameUnresolved. Only `signal` limits its time. */
  async target(url: string, signal: AbortSignal): Promise<Target> {
    signal.throwIfAborted();
    const { faults, endpoint } = parseUrl(url);
    if (endpoint === undefined) throw new EgressRefused(faults);
    const known = [...faults, ...endpointFaults(endpoint, this.#policy())];
    if (known.length > 0) throw new EgressRefused(known);
    const { literal, hostname } = endpoint;
    const addresses = literal === undefined ? await this.#resolve(hostname, signal) : [literal];
    // The device's addresses may have changed during the lookup.
    return targetOf(endpoint, addresses, this.#policy());
  }

  mayCall(address: string, port: number): boolean {
    const parsed = parseAddress(address);
    try {
      return parsed !== undefined && mayCallAt(parsed, port, this.#policy());
    } catch (error) {
      if (error instanceof EgressRefused) return false;
      throw error;
    }
  }

  #policy(): EgressPolicy {
    return { allow: this.#allow, ports: this.#o.allowPorts, own: this.#ownNow() };
  }

  #ownNow(): readonly Address[] {
    const nowMs = this.#o.clock.monoMs();
    if (this.#own === undefined || this.#own.untilMs <= nowMs) {
      const found = this.#listOwn().map(parseAddress);
      const addresses = found.filter((address) => address !== undefined);
      this.#own = { addresses, untilMs: nowMs + keepOwnMs };
    }
    return this.#own.addresses;
  }

  /** Without AF_NETLINK the kernel lists no interfaces: then nothing is called. */
  #listOwn(): readonly string[] {
    const { ownAddresses = interfaceAddresses } = this.#o;
    try {
      return ownAddresses();
    } catch (error) {
      throw new EgressRefused([`the device's own addresses cannot be listed: ${messageOf(error)}`]);
    }
  }

  async #resolve(hostname: string, signal: AbortSignal): Promise<readonly (Address | undefined)[]> {
    const found = await this.#o.resolver.resolve(hostname, signal);
    return found.map(({ address }) => parseAddress(address));
  }

  async #resolveSoon(hostname: string): Promise<readonly (Address | undefined)[]> {
    const late = new AbortController();
    const timer = this.#o.clock.timer(registrationLookupMs, () => late.abort());
    try {
      return await this.#resolve(hostname, late.signal);
    } catch (error) {
      if (late.signal.aborted || error instanceof NameUnresolved) return [];
      throw error;
    } finally {
      timer.cancel();
    }
  }
}

function targetOf(endpoint: Endpoint, addresses: readonly (Address | undefined)[], policy: EgressPolicy): Target {
  const faults = addressFaults(endpoint, addresses, policy);
  if (faults.length > 0) throw new EgressRefused(faults);
  const known = addresses.filter((address) => address !== undefined);
  // The parsed address as text, each once: exactly the checked address is dialled.
  const families = new Map(known.map((address) => [address.toString(), address.kind() === 'ipv4' ? 4 : 6] as const));
  const { hostname, port } = endpoint;
  return { hostname, port, addresses: [...families].map(([address, family]) => ({ address, family })) };
}

export function interfaceAddresses(): readonly string[] {
  return Object.values(networkInterfaces()).flatMap((list = []) => list.map(({ address }) => address));
}
