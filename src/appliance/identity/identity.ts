/**
 * Who the box is to those who reach it over the network: its name in events, a certificate authority of its own, and
 * the certificate which that one signed. What people compare is the authority's fingerprint: it stays when the server's
 * certificate is renewed.
 */
import { createHash, createPrivateKey, X509Certificate } from 'node:crypto';
import { join } from 'node:path';
import { instantOfMs } from '../../shared/base/instant.ts';
import { deviceIdIn, deviceIdOf } from '../../shared/config/device-id.ts';
import { type Box, etc } from '../box.ts';
import type { Change } from '../transaction.ts';
import { makeAuthority, makeServerPair, type Pair, RENEWAL_LEFT_MS } from './certificates.ts';

/** identity.json: nothing in it is a secret. */
export interface IdentityFile {
  readonly deviceId: string;
  /** SHA-256 of the certificate (DER), upper-case hex with colons. */
  readonly caFingerprint: string;
  readonly serverFingerprint: string;
  /** RFC 3339, by the clock of that moment, which may have been wrong. */
  readonly createdAt: string;
}

export interface Identity extends IdentityFile {
  readonly authority: Pair;
  /** Host names and addresses of the server's certificate. */
  readonly names: readonly string[];
  readonly serverEndMs: number;
}

export type Found =
  | { readonly kind: 'none' }
  | { readonly kind: 'whole'; readonly identity: Identity }
  /** `authority`: where that much is whole, the rest can be made again and no client has to trust again. */
  | { readonly kind: 'damaged'; readonly what: string; readonly authority: Pair | undefined };

const tlsKeys = [join(etc.lineSecrets, 'tls.key'), join(etc.hubSecrets, 'tls.key')];
const parts = [etc.identity, etc.caCert, etc.serverCert, etc.caKey, ...tlsKeys];

export function findIdentity(box: Box): Found {
  const texts = parts.map((place) => box.text(place));
  if (texts.every((text) => text === undefined)) return { kind: 'none' };
  const [about = '', caCert = '', serverChain = '', caKey = '', ...keys] = texts.map((text) => text ?? '');
  const authority = belongTogether(caCert, caKey) ? { cert: caCert, key: caKey } : undefined;
  const missing = parts.find((_, i) => texts[i] === undefined);
  const what =
    missing !== undefined
      ? `${missing} is missing`
      : authority === undefined
        ? `${etc.caKey} and ${etc.caCert} are not a pair`
        : serverFault(authority, serverChain, keys);
  if (what !== undefined || authority === undefined) return { kind: 'damaged', what: what ?? '', authority };
  const file = aboutOf(about, caCert, serverChain);
  if (file === undefined) return { kind: 'damaged', what: `${etc.identity} does not fit the certificates`, authority };
  const server = new X509Certificate(serverChain);
  const identity = { ...file, authority, names: namesOf(server), serverEndMs: server.validToDate.getTime() };
  return { kind: 'whole', identity };
}

/** What a renewal keeps; undefined: there is none, or it is damaged too. */
export function authorityOf(found: Found): Pair | undefined {
  if (found.kind === 'none') return undefined;
  return found.kind === 'whole' ? found.identity.authority : found.authority;
}

function serverFault(authority: Pair, chain: string, keys: readonly string[]): string | undefined {
  const ends = keys.findIndex((key) => !belongTogether(chain, key));
  if (ends >= 0) return `${tlsKeys[ends]} and ${etc.serverCert} are not a pair`;
  const ca = new X509Certificate(authority.cert);
  return new X509Certificate(chain).verify(ca.publicKey)
    ? undefined
    : `${etc.serverCert} is not signed by ${etc.caCert}`;
}

function belongTogether(cert: string, key: string): boolean {
  try {
    return new X509Certificate(cert).checkPrivateKey(createPrivateKey(key));
  } catch {
    return false;
  }
}

function aboutOf(text: string, caCert: string, serverChain: string): IdentityFile | undefined {
  try {
    const about = JSON.parse(text) as Partial<IdentityFile>;
    const { deviceId, caFingerprint, serverFingerprint, createdAt } = about;
    if (typeof deviceId !== 'string' || typeof createdAt !== 'string') return undefined;
    if (caFingerprint !== fingerprintOf(caCert) || serverFingerprint !== fingerprintOf(serverChain)) return undefined;
    return { deviceId, caFingerprint, serverFingerprint, createdAt };
  } catch {
    return undefined;
  }
}

/** Of the first certificate in the text. */
export function fingerprintOf(pem: string): string {
  const digest = createHash('sha256').update(new X509Certificate(pem).raw).digest('hex').toUpperCase();
  return (digest.match(/../g) ?? []).join(':');
}

function namesOf(server: X509Certificate): string[] {
  const written = (server.subjectAltName ?? '').split(', ');
  return written.map((one) => normalAddress(one.replace(/^(DNS|IP Address):/, '')));
}

/** "0:0:0:0:0:0:0:1", as certificates are printed, and "::1" are one address. */
function normalAddress(name: string): string {
  return name.includes(':') && URL.canParse(`http://[${name}]/`)
    ? new URL(`http://[${name}]/`).hostname.slice(1, -1)
    : name;
}

/** What the certificate is to be good for: the box's names, and a fixed address where it has one. */
export function wantedNames(hostname: string, addresses: readonly string[] = []): string[] {
  const own = hostname === '' || hostname === 'localhost' ? [] : [hostname, `${hostname}.local`];
  return [...own, 'localhost', '127.0.0.1', '::1', ...addresses.map(normalAddress)];
}

/** Whether the certificate is to be made again: other names, or its end is near. */
export function needsRenewal({ names, serverEndMs }: Identity, wanted: readonly string[], nowMs: number): boolean {
  const same = names.length === wanted.length && wanted.every((name) => names.includes(name));
  return !same || serverEndMs - nowMs < RENEWAL_LEFT_MS;
}

export interface NewIdentity {
  readonly file: IdentityFile;
  readonly changes: readonly Change[];
}

/** `kept`: the authority that stays; undefined: a new one. Nothing is written yet. */
export function planIdentity(box: Box, names: readonly string[], nowMs: number, kept?: Pair): NewIdentity {
  // A box whose certificates are damaged, or recreated, keeps its name.
  const deviceId = deviceIdIn(box.text(etc.identity)) ?? deviceIdOf(box.text(etc.machineId) ?? '', names[0] ?? '');
  const authority = kept ?? makeAuthority(deviceId);
  const server = makeServerPair(authority, names, nowMs);
  const file: IdentityFile = {
    deviceId,
    caFingerprint: fingerprintOf(authority.cert),
    serverFingerprint: fingerprintOf(server.cert),
    createdAt: instantOfMs(nowMs),
  };
  const secret = (place: string, content: string): Change => ({ place, content, mode: 0o600, dirMode: 0o700 });
  const open = (place: string, content: string): Change => ({ place, content, mode: 0o644 });
  const changes = [
    secret(etc.caKey, authority.key),
    open(etc.caCert, authority.cert),
    open(etc.serverCert, server.cert + authority.cert),
    ...tlsKeys.map((place) => secret(place, server.key)),
    open(etc.identity, `${JSON.stringify(file, null, 2)}\n`),
    // The version is not in it: an update would have to rewrite it.
    open(join(etc.announcements, 'lineside.service'), avahiService(file)),
  ];
  return { file, changes };
}

// How Avahi announces the box on the LAN (DNS-SD, avahi.service(5)): what `lineside discover` finds.

/** What is known of the box; the record that the package brings knows neither. */
interface Announced {
  readonly deviceId?: string;
  readonly version?: string;
  /** Of the device's authority: SHA-256, hexadecimal, colons or not. */
  readonly caFingerprint?: string;
}

const GRPC_PORT = 50_051;
const HTTP_PORT = 8_443;
/** A string of a TXT record carries its length in one byte (RFC 6763, 6.1). */
const MAX_TXT_BYTES = 255;

/** /etc/avahi/services/lineside.service, in which %h is the host's name. */
export function avahiService({ deviceId, version, caFingerprint }: Announced): string {
  const known: readonly (readonly [string, string | undefined])[] = [
    ['http', String(HTTP_PORT)],
    ['id', deviceId],
    ['version', version],
    ['fp', caFingerprint?.replaceAll(':', '').toLowerCase()],
  ];
  const records = known.flatMap(([key, value]) => {
    const text = `${key}=${value}`;
    return value === undefined || new TextEncoder().encode(text).length > MAX_TXT_BYTES
      ? []
      : [`    <txt-record>${escaped(text)}</txt-record>\n`];
  });
  return `<?xml version="1.0" standalone='no'?>
<!DOCTYPE service-group SYSTEM "avahi-service.dtd">
<!-- Announces this box on the LAN (DNS-SD); the fingerprint is a hint for who compares it with the box itself. -->
<service-group>
  <name replace-wildcards="yes">%h</name>
  <service>
    <type>_lineside._tcp</type>
    <port>${GRPC_PORT}</port>
${records.join('')}  </service>
</service-group>
`;
}

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };

/** XML 1.0 has no way to write a control character at all. */
function escaped(text: string): string {
  return text.replace(/\p{Cc}/gu, '').replace(/[&<>"]/g, (char) => entities[char] ?? '');
}
