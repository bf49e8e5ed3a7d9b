/**
 * Classes of IP addresses: public, allowed by the configuration, or neither. ipaddr.js only parses; the ranges are ours,
 * because ipaddr.js takes ::7f00:1 and 168.63.129.16 for ordinary addresses. Pure.
 */
import ipaddr from 'ipaddr.js';

export type Address = ipaddr.IPv4 | ipaddr.IPv6;

export interface Cidr {
  readonly base: Address;
  readonly bits: number;
}

/**
 * allowed: within a range of webhooks.allow_cidrs. closed: neither public nor allowed. own: the device's, and not allowed as
 * a single address. never: cannot be allowed.
 */
export type AddressClass = 'public' | 'allowed' | 'closed' | 'own' | 'never';

/** Not public. `never`: cannot be allowed, because a TCP connection would end elsewhere, or nowhere. */
interface Range extends Cidr {
  readonly what: string;
  readonly never: boolean;
}

const embedded = 'an IPv4 address inside an IPv6 address';
/** 00-00-5E-FE; RFC 5214 lets the universal and group bits vary. */
const isatapId = 0x5efe;
const isatapVaryingBits = 0x0300;

/** IANA's special-purpose registries and other private ranges. The first match names the address. */
const ranges: readonly Range[] = [
  never('0.0.0.0/8', 'this host'),
  never('224.0.0.0/4', 'multicast'),
  never('255.255.255.255/32', 'broadcast'),
  closed('10.0.0.0/8', 'private network'),
  closed('100.64.0.0/10', "provider's address translation"),
  closed('127.0.0.0/8', 'loopback'),
  closed('169.254.0.0/16', 'link-local, cloud metadata'),
  closed('172.16.0.0/12', 'private network'),
  closed('192.0.0.0/24', 'protocol assignments'),
  closed('192.0.2.0/24', 'documentation'),
  closed('192.88.99.0/24', '6to4 relay'),
  closed('192.168.0.0/16', 'private network'),
  closed('198.18.0.0/15', 'benchmarks'),
  closed('198.51.100.0/24', 'documentation'),
  closed('203.0.113.0/24', 'documentation'),
  closed('240.0.0.0/4', 'reserved'),
  // Azure's host agent, at a public address.
  closed('168.63.129.16/32', 'cloud platform'),
  closed('::1/128', 'loopback'),
  never('::/128', 'this host'),
  // Mapped, compatible, translated (::ffff:0:a.b.c.d), NAT64 (64:ff9b::/96, 64:ff9b:1::/48).
  never('::/8', embedded),
  never('2002::/16', embedded),
  // Teredo.
  never('2001::/32', embedded),
  never('ff00::/8', 'multicast'),
  closed('100::/64', 'discarded'),
  closed('2001::/23', 'protocol assignments'),
  closed('2001:db8::/32', 'documentation'),
  closed('3fff::/20', 'documentation'),
  closed('fc00::/7', 'private network'),
  closed('fe80::/10', 'link-local'),
  closed('fec0::/10', 'site-local'),
];
const globalUnicast = cidr('2000::/3');
const loopbacks = [cidr('127.0.0.0/8'), cidr('::1/128')];

/** Strict: four decimal parts, or IPv6 without a zone. The parsed address is dialled, so that no reader misreads its text. */
export function parseAddress(text: string): Address | undefined {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text);
  // 45: the longest IPv6 address in text, with IPv4 at its end.
  if (!/^[\da-f:.]{2,45}$/i.test(text) || !ipaddr.IPv6.isValid(text)) return undefined;
  return ipaddr.IPv6.parse(text);
}

export function within(address: Address, { base, bits }: Cidr): boolean {
  return address.kind() === base.kind() && address.match(base, bits);
}

export function classifyAddress(address: Address, allow: readonly Cidr[], own: readonly Address[]): AddressClass {
  const special = specialRange(address);
  if (special?.never === true) return 'never';
  const opening = allow.filter((range) => within(address, range));
  const isOwn = own.some((mine) => within(address, exactly(mine)));
  // A range that holds the device's own address by chance must not open the device itself.
  if (isOwn && !isLoopback(address) && !opening.some(({ bits }) => bits === widthOf(address))) return 'own';
  if (opening.length > 0) return 'allowed';
  return special === undefined ? 'public' : 'closed';
}

/** undefined: public. */
export function describeAddress(address: Address): string | undefined {
  return specialRange(address)?.what;
}

function specialRange(address: Address): Pick<Range, 'what' | 'never'> | undefined {
  if (isIsatap(address)) return { what: embedded, never: true };
  const range = ranges.find((one) => within(address, one));
  if (range !== undefined) return range;
  if (address.kind() === 'ipv4' || within(address, globalUnicast)) return undefined;
  return { what: 'outside the public IPv6 range 2000::/3', never: false };
}

function isIsatap(address: Address): boolean {
  if (!('parts' in address)) return false;
  const [high = 0, low = 0] = address.parts.slice(4, 6);
  return (high & ~isatapVaryingBits) === 0 && low === isatapId;
}

function isLoopback(address: Address): boolean {
  return loopbacks.some((range) => within(address, range));
}

function exactly(address: Address): Cidr {
  return { base: address, bits: widthOf(address) };
}

function widthOf(address: Address): 32 | 128 {
  return address.kind() === 'ipv4' ? 32 : 128;
}

function never(text: string, what: string): Range {
  return { ...cidr(text), what, never: true };
}

function closed(text: string, what: string): Range {
  return { ...cidr(text), what, never: false };
}

/** Of a range that the configuration has checked. */
export function cidr(text: string): Cidr {
  const [base, bits] = ipaddr.parseCIDR(text);
  return { base, bits };
}
