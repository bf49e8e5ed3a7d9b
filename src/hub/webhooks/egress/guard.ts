/**
 * The egress guard: the one judgement of where the device may call, at registration, at test-ping and at each connection.
 * A name is judged by every address it has, and what is dialled afterwards is one of exactly those.
 */
import { lookup as systemLookup } from 'node:dns/promises';
import { networkInterfaces } from 'node:os';
import type { Clock } from '../../../shared/base/clock.ts';
import { LinesideError, messageOf } from '../../../shared/base/errors.ts';
import { type Egress, EgressRefused, type EgressRules, NameUnresolved, type Target } from '../parts.ts';
import { type Address, cidrFault, parseAddress, parseCidr } from './address.ts';
import { addressFaults, type EgressPolicy, endpointFaults, mayCallAt } from './endpoint-rules.ts';
import { type Found, type Lookup, Resolver } from './resolver.ts';
import { type Endpoint, parseUrl } from './url.ts';

export interface EgressOptions {
  readonly rules: EgressRules;
  readonly clock: Clock;
  /** Default: dns.lookup, all addresses in the system's order. */
  readonly lookup?: Lookup;
  /** The device's own addresses now, as text. Default: those of its network interfaces. */
  readonly ownAddresses?: () => readonly string[];
}

/** How long a registration waits for a name: a person waits for the answer, and each connection judges again anyway. */
const registrationLookupMs = 2_000;
/** Listing and reading the device's own addresses takes a millisecond on a small board, and each attempt asks several times. */
const keepOwnMs = 1_000;

export interface AddressSource {
  /** All addresses of a name, not judged. Rejects with NameUnresolved. */
  resolve(hostname: string, signal: AbortSignal): Promise<readonly Found[]>;
}

/** Throws CONFIG_INVALID for a range that cannot be read. */
export function createEgress(options: EgressOptions): Egress & AddressSource & { forget(hostname: string): void } {
  return new EgressGuard(options);
}

class EgressGuard implements Egress, AddressSource {
  readonly #allow: EgressPolicy['allow'];
  readonly #ports: readonly number[];
  readonly #ownAddresses: () => readonly string[];
  readonly #resolver: Resolver;
  readonly #clock: Clock;
  #own: { readonly addresses: readonly Address[]; readonly untilMs: number } | undefined;

  constructor({ rules, clock, lookup = lookupAll, ownAddresses = interfaceAddresses }: EgressOptions) {
    this.#allow = readRanges(rules.allowCidrs);
    this.#ports = rules.allowPorts;
    this.#ownAddresses = ownAddresses;
    this.#resolver = new Resolver(lookup, clock);
    this.#clock = clock;
  }

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
    const guard = this.#guard();
    const known = [...faults, ...endpointFaults(endpoint, guard)];
    if (endpoint.literal !== undefined || (endpoint.local && guard.allow.length === 0)) return known;
    const addresses = await this.#resolveSoon(endpoint.hostname);
    return [...new Set([...known, ...addressFaults(endpoint, addresses, guard)])];
  }

  async target(url: string, signal: AbortSignal): Promise<Target> {
    signal.throwIfAborted();
    const { faults, endpoint } = parseUrl(url);
    if (endpoint === undefined) throw new EgressRefused(faults);
    const known = [...faults, ...endpointFaults(endpoint, this.#guard())];
    if (known.length > 0) throw new EgressRefused(known);
    const addresses =
      endpoint.literal === undefined ? await this.#resolve(endpoint.hostname, signal) : [endpoint.literal];
    // The device's own addresses may have changed while the name was looked up.
    return targetOf(endpoint, addresses, this.#guard());
  }

  mayCall(address: string, port: number): boolean {
    const parsed = parseAddress(address);
    try {
      return parsed !== undefined && mayCallAt(parsed, port, this.#guard());
    } catch (error) {
      if (error instanceof EgressRefused) return false;
      throw error;
    }
  }

  resolve(hostname: string, signal: AbortSignal): Promise<readonly Found[]> {
    return this.#resolver.resolve(hostname, signal);
  }

  /** Of a name whose address did not answer: the next attempt looks it up again. */
  forget(hostname: string): void {
    this.#resolver.forget(hostname);
  }

  #guard(): EgressPolicy {
    return { allow: this.#allow, ports: this.#ports, own: this.#ownNow() };
  }

  #ownNow(): readonly Address[] {
    const nowMs = this.#clock.monoMs();
    if (this.#own === undefined || this.#own.untilMs <= nowMs) {
      const found = this.#listOwn().map(parseAddress);
      const addresses = found.filter((address) => address !== undefined);
      this.#own = { addresses, untilMs: nowMs + keepOwnMs };
    }
    return this.#own.addresses;
  }

  /** Without AF_NETLINK the kernel tells no interfaces: then nothing is called rather than anything. */
  #listOwn(): readonly string[] {
    try {
      return this.#ownAddresses();
    } catch (error) {
      throw new EgressRefused([`the device's own addresses cannot be listed: ${messageOf(error)}`]);
    }
  }

  async #resolve(hostname: string, signal: AbortSignal): Promise<readonly (Address | undefined)[]> {
    const found = await this.resolve(hostname, signal);
    return found.map(({ address }) => parseAddress(address));
  }

  async #resolveSoon(hostname: string): Promise<readonly (Address | undefined)[]> {
    const late = new AbortController();
    const timer = this.#clock.timer(registrationLookupMs, () => late.abort());
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

function targetOf(endpoint: Endpoint, addresses: readonly (Address | undefined)[], guard: EgressPolicy): Target {
  const faults = addressFaults(endpoint, addresses, guard);
  if (faults.length > 0) throw new EgressRefused(faults);
  const known = addresses.filter((address) => address !== undefined);
  // The parsed address as text, each once: what is dialled is what was judged.
  const families = new Map(known.map((address) => [address.toString(), address.kind() === 'ipv4' ? 4 : 6] as const));
  return {
    hostname: endpoint.hostname,
    port: endpoint.port,
    addresses: [...families].map(([address, family]) => ({ address, family })),
  };
}

function readRanges(texts: readonly string[]): EgressPolicy['allow'] {
  const reasons = texts.map(cidrFault).filter((fault) => fault !== undefined);
  if (reasons.length > 0) {
    throw new LinesideError('CONFIG_INVALID', 'webhooks.allow_cidrs holds ranges that cannot be read', { reasons });
  }
  return texts.map(parseCidr).filter((range) => range !== undefined);
}

function lookupAll(hostname: string): ReturnType<Lookup> {
  return systemLookup(hostname, { all: true, verbatim: true });
}

function interfaceAddresses(): readonly string[] {
  return Object.values(networkInterfaces()).flatMap((list = []) => list.map(({ address }) => address));
}
