/**
 * Where the text of a URL leads, and every fault of its form. The host that the parser found is judged, never the text:
 * 2130706433, 0x7f.1 and full-width digits are all 127.0.0.1 by then. Pure.
 */
import { type Address, parseAddress } from './address.ts';

export const maxUrlCharacters = 2_048;
export const httpsPort = 443;
/** RFC 1035. */
const maxNameCharacters = 253;
const maxLabelCharacters = 63;

export interface Endpoint {
  /** As the URL has it after parsing: lower case, ASCII, an IPv6 address without its brackets. */
  readonly hostname: string;
  readonly port: number;
  /** The host itself, where it is an address. */
  readonly literal: Address | undefined;
  /** A name that only means something on this device or in its own network. */
  readonly local: boolean;
}

export interface ParsedUrl {
  readonly faults: readonly string[];
  /** undefined: it leads nowhere that could be looked at. */
  readonly endpoint: Endpoint | undefined;
}

const localSuffixes = ['localhost', 'localdomain', 'local', 'internal', 'lan', 'home.arpa'];

/** The longest text that is parsed, in UTF-16 units: that bounds the work on a URL that is refused anyway. */
const maxParsedLength = 16 * 1_024;

/** Every fault at once: of its length, scheme, form, host and port. */
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

/** The parser reads host and port of other schemes otherwise, or not at all. null: there is no host. */
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

/** Trailing dots do not change where a name leads. A name without a dot is completed by the device's own search list. */
export function isLocalName(hostname: string): boolean {
  const name = hostname.replace(/\.+$/, '').toLowerCase();
  return !name.includes('.') || localSuffixes.some((suffix) => name === suffix || name.endsWith(`.${suffix}`));
}

function tooLong(text: string): boolean {
  return text.length > maxUrlCharacters * 2 || Array.from(text).length > maxUrlCharacters;
}

/** What the parser would drop, repair or read otherwise than a person does. */
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
  // https://@host/ has one that is empty. A backslash ends the host as a slash does.
  const authority = /^[a-z][a-z\d+.-]*:[/\\]*([^/\\?#]*)/i.exec(text.trim())?.[1] ?? '';
  return authority.includes('@');
}

function endpointOf(url: URL): Endpoint {
  const hostname = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const literal = parseAddress(hostname);
  const port = url.port === '' ? httpsPort : Number(url.port);
  return { hostname, port, literal, local: literal === undefined && isLocalName(hostname) };
}

/** The parser lets through what no resolver means as a name: 127.0.0.1.., "a b" by way of %, 300-character labels. */
function isHostName(hostname: string): boolean {
  const name = hostname.replace(/\.$/, '');
  const labels = name.split('.');
  return (
    name.length <= maxNameCharacters &&
    labels.every((label) => label.length <= maxLabelCharacters && /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$/.test(label))
  );
}
