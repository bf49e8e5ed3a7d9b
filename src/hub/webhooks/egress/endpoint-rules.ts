/**
 * Whether a place may be called at the addresses it has, and each reason why not. A reason says what was asked for, never
 * the address that a name led to: an admin who registers URLs must not read the site's name server by them. Pure.
 */
import { type Address, type AddressClass, type Cidr, classifyAddress, describeAddress } from './address.ts';
import { type Endpoint, httpsPort } from './url.ts';

export interface EgressPolicy {
  readonly allow: readonly Cidr[];
  /** For public addresses, besides 443. */
  readonly ports: readonly number[];
  /** The device's. */
  readonly own: readonly Address[];
}

type Finding = AddressClass | 'port';

export function mayCallAt(address: Address, port: number, guard: EgressPolicy): boolean {
  const finding = findingAt(address, port, guard);
  return port > 0 && (finding === 'public' || finding === 'allowed');
}

/** What speaks against a place whatever its name leads to. */
export function endpointFaults(endpoint: Endpoint, guard: EgressPolicy): readonly string[] {
  if (endpoint.literal !== undefined) return addressFaults(endpoint, [endpoint.literal], guard);
  if (guard.allow.length > 0) return [];
  const faults: string[] = [];
  if (endpoint.local) faults.push(localReason(endpoint.hostname));
  if (!portIsOpen(endpoint.port, guard)) faults.push(portReason(endpoint.port));
  return faults;
}

/**
 * What speaks against a place that has these addresses (undefined: one with a zone, which only a link knows). One bad
 * address refuses them all.
 */
export function addressFaults(
  endpoint: Endpoint,
  addresses: readonly (Address | undefined)[],
  guard: EgressPolicy,
): readonly string[] {
  const reasons = addresses.flatMap((address) => {
    const finding = findingAt(address, endpoint.port, guard);
    if (endpoint.literal !== undefined) return literalReason(endpoint.literal, endpoint.port, finding);
    if (endpoint.local && (finding === 'public' || finding === 'port')) return [localReason(endpoint.hostname)];
    return nameReason(endpoint, finding);
  });
  return [...new Set(reasons)];
}

function findingAt(address: Address | undefined, port: number, guard: EgressPolicy): Finding {
  if (address === undefined) return 'never';
  const verdict = classifyAddress(address, guard.allow, guard.own);
  return verdict === 'public' && !portIsOpen(port, guard) ? 'port' : verdict;
}

function portIsOpen(port: number, { ports }: EgressPolicy): boolean {
  return port === httpsPort || ports.includes(port);
}

function literalReason(address: Address, port: number, finding: Finding): readonly string[] {
  const text = address.toString();
  const nature = describeAddress(address) ?? 'public';
  switch (finding) {
    case 'public':
    case 'allowed':
      return [];
    case 'port':
      return [portReason(port)];
    case 'closed':
      return [`the address ${text} is not public (${nature}) and not in webhooks.allow_cidrs`];
    case 'own':
      return [`the address ${text} is the device's own: only ${text} itself in webhooks.allow_cidrs opens it`];
    case 'never':
      return [`the address ${text} is never called (${nature})`];
  }
}

function nameReason({ hostname, port }: Endpoint, finding: Finding): readonly string[] {
  switch (finding) {
    case 'public':
    case 'allowed':
      return [];
    case 'port':
      return [portReason(port)];
    case 'closed':
      return [`the name ${hostname} leads to an address that is neither public nor in webhooks.allow_cidrs`];
    case 'own':
      return [`the name ${hostname} leads to this device: only that very address in webhooks.allow_cidrs opens it`];
    case 'never':
      return [
        `the name ${hostname} leads to an address that is never called (multicast, this host, a link's, IPv4 inside IPv6)`,
      ];
  }
}

function localReason(hostname: string): string {
  return `the name ${hostname} is a local one: every address it leads to must lie in webhooks.allow_cidrs`;
}

function portReason(port: number): string {
  return `port ${port} is not open for public addresses: only ${httpsPort} and webhooks.allow_ports are`;
}
