/**
 * The endpoint of a URL, all faults of the URL's form, and whether the endpoint may be called at its addresses. The parsed
 * host is checked, never the text: 2130706433, 0x7f.1 and full-width digits all become 127.0.0.1. A reason never shows a
 * resolved address: an admin who registers URLs must not read the site's name server this way. Pure.
 */
import {
  type Address,
  type AddressClass,
  type Cidr,
  classifyAddress,
  describeAddress,
  parseAddress,
} from './address.ts';

export const maxUrlCharacters = 2_048;
export const httpsPort = 443;
/** RFC 1035. */
const maxNameCharacters = 253;
const maxLabelCharacters = 63;

export interface Endpoint {
  /** As parsed: lower case, ASCII, an IPv6 address without brackets. */
  readonly hostname: string;
  readonly port: number;
  /** The host, if it is an address. */
  readonly literal: Address | undefined;
  /** A name that is only valid on this device or in its network. */
  readonly local: boolean;
}

export interface ParsedUrl {
  readonly faults: readonly string[];
  /** undefined: no host that could be checked. */
  readonly endpoint: Endpoint | undefined;
}

const localSuffixes = ['localhost', 'localdomain', 'local', 'internal', 'lan', 'home.arpa'];

/** In UTF-16 units: limits the work on a URL that is refused anyway. */
const maxParsedLength = 16 * 1_024;

/** All faults of length, scheme, form, host and port. */
export function parseUrl(text: string): ParsedUrl {
  const faults = tooLong(text) ? [`the URL is longer than ${maxUrlCharacters} characters`] : [];
  if (text.length > maxParsedLength) return { faults, endpoint: undefined };
  faults.push(...textFaults(text));
  const url = URL.parse(text);
  if (url === null) return { faults: [...faults, 'the URL cannot be parsed'], endpoint: undefined };
  if (url.protocol !== 'https:') faults.push('the URL must begin with https://');
  else if (!/^https:\/\/[^/]/i.test(text)) faults.push('the URL must begin with https:// and the host right after it');
  const secure = url.protocol === 'https:' ? url : asHttps(text);
  return secure === null ? { faults, endpoint: undefined } : checked(text, secure, faults);
}

/** The parser reads host and port of other schemes differently, or not at all. null: no host. */
function asHttps(text: string): URL | null {
  const authority = /^[^:/?#]+(:\/\/[^/].*)$/s.exec(text.trim())?.[1];
  return authority === undefined ? null : URL.parse(`https${authority}`);
}

function checked(text: string, url: URL, faults: readonly string[]): ParsedUrl {
  const endpoint = endpointOf(url);
  const isNamed = endpoint.literal !== undefined || isHostName(endpoint.hostname);
  const found = [
    ...(hasUserInfo(text, url) ? ['the URL must not hold a user name or password'] : []),
    ...(endpoint.port === 0 ? ['port 0 cannot be called'] : []),
    ...(isNamed ? [] : [`${JSON.stringify(endpoint.hostname.slice(0, maxNameCharacters))} is not a host name`]),
  ];
  return { faults: [...faults, ...found], endpoint: isNamed ? endpoint : undefined };
}

/** Trailing dots have no effect. The device's search list completes a name without a dot. */
export function isLocalName(hostname: string): boolean {
  const name = hostname.replace(/\.+$/, '').toLowerCase();
  return !name.includes('.') || localSuffixes.some((suffix) => name === suffix || name.endsWith(`.${suffix}`));
}

function tooLong(text: string): boolean {
  return text.length > maxUrlCharacters * 2 || Array.from(text).length > maxUrlCharacters;
}

/** Characters that the parser drops, repairs or reads differently than a person. */
function textFaults(text: string): string[] {
  const faults: string[] = [];
  if (/[\p{Cc}\p{Cf}\p{Cs}\p{Z}]/u.test(text)) {
    faults.push('the URL must not hold spaces, line breaks, control or invisible characters (percent-encode them)');
  }
  if (text.includes('\\')) faults.push('the URL must not hold a backslash (percent-encode it: %5C)');
  return faults;
}

function hasUserInfo(text: string, url: URL): boolean {
  if (url.username !== '' || url.password !== '') return true;
  // https://@host/ has an empty one. A backslash ends the host as a slash does.
  const authority = /^[a-z][a-z\d+.-]*:[/\\]*([^/\\?#]*)/i.exec(text.trim())?.[1] ?? '';
  return authority.includes('@');
}

function endpointOf(url: URL): Endpoint {
  const hostname = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const literal = parseAddress(hostname);
  const port = url.port === '' ? httpsPort : Number(url.port);
  return { hostname, port, literal, local: literal === undefined && isLocalName(hostname) };
}

/** The parser accepts invalid names: 127.0.0.1.., "a b" percent-encoded, labels of 300 characters. */
function isHostName(hostname: string): boolean {
  const name = hostname.replace(/\.$/, '');
  const labels = name.split('.');
  return (
    name.length <= maxNameCharacters &&
    labels.every((label) => label.length <= maxLabelCharacters && /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$/.test(label))
  );
}

export interface EgressPolicy {
  readonly allow: readonly Cidr[];
  /** Open for public addresses, besides 443. */
  readonly ports: readonly number[];
  /** The device's. */
  readonly own: readonly Address[];
}

/** port: a public address whose port is not open. */
type EndpointClass = AddressClass | 'port';

export function mayCallAt(address: Address, port: number, policy: EgressPolicy): boolean {
  const found = classAt(address, port, policy);
  return port > 0 && (found === 'public' || found === 'allowed');
}

/** Faults of an endpoint that do not depend on its name's addresses. */
export function endpointFaults(endpoint: Endpoint, policy: EgressPolicy): readonly string[] {
  if (endpoint.literal !== undefined) return addressFaults(endpoint, [endpoint.literal], policy);
  if (policy.allow.length > 0) return [];
  const faults: string[] = [];
  if (endpoint.local) faults.push(localReason(endpoint.hostname));
  if (!portIsOpen(endpoint.port, policy)) faults.push(portReason(endpoint.port));
  return faults;
}

/** Faults of an endpoint with these addresses; undefined: one with a zone, valid on one link only. One bad address refuses all. */
export function addressFaults(
  endpoint: Endpoint,
  addresses: readonly (Address | undefined)[],
  policy: EgressPolicy,
): readonly string[] {
  const reasons = addresses.map((address) => reasonOf(endpoint, classAt(address, endpoint.port, policy)));
  return [...new Set(reasons.filter((reason) => reason !== undefined))];
}

function classAt(address: Address | undefined, port: number, policy: EgressPolicy): EndpointClass {
  if (address === undefined) return 'never';
  const verdict = classifyAddress(address, policy.allow, policy.own);
  return verdict === 'public' && !portIsOpen(port, policy) ? 'port' : verdict;
}

function portIsOpen(port: number, { ports }: EgressPolicy): boolean {
  return port === httpsPort || ports.includes(port);
}

/** For an address in the URL; for a name, whose addresses must not be shown. */
const refusals = {
  closed: [
    'is not public (NATURE) and not in webhooks.allow_cidrs',
    'leads to an address that is neither public nor in webhooks.allow_cidrs',
  ],
  own: [
    "is the device's own: only ADDRESS itself in webhooks.allow_cidrs opens it",
    'leads to this device: only that very address in webhooks.allow_cidrs opens it',
  ],
  never: [
    'is never called (NATURE)',
    "leads to an address that is never called (multicast, this host, a link's, IPv4 inside IPv6)",
  ],
} as const;

/** undefined: it may be called. */
function reasonOf({ literal, hostname, port, local }: Endpoint, found: EndpointClass): string | undefined {
  if (local && (found === 'public' || found === 'port')) return localReason(hostname);
  if (found === 'public' || found === 'allowed') return undefined;
  if (found === 'port') return portReason(port);
  const [ofAddress, ofName] = refusals[found];
  if (literal === undefined) return `the name ${hostname} ${ofName}`;
  const [address, nature] = [literal.toString(), describeAddress(literal) ?? 'public'];
  return `the address ${address} ${ofAddress.replace('NATURE', nature).replace('ADDRESS', address)}`;
}

function localReason(hostname: string): string {
  return `the name ${hostname} is a local one: every address it leads to must lie in webhooks.allow_cidrs`;
}

function portReason(port: number): string {
  return `port ${port} is not open for public addresses: only ${httpsPort} and webhooks.allow_ports are`;
}
