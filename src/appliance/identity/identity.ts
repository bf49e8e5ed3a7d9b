/**
 * The identity of the box on the network: its name in events, a certificate authority of its own, and the server certificate
 * signed by it. People compare the authority's fingerprint, which does not change when the server certificate is renewed.
 */
import { execFileSync } from 'node:child_process';
import { createPrivateKey, X509Certificate } from 'node:crypto';
import { mkdtempDisposableSync, readFileSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LinesideError, messageOf, systemCode } from '../../shared/base/errors.ts';
import { instantOfMs } from '../../shared/base/instant.ts';
import { objectIn } from '../../shared/base/json.ts';
import { deviceIdIn, deviceIdOf } from '../../shared/config/device-id.ts';
import { type Box, etc } from '../box.ts';
import { type Change, closed, open } from '../transaction.ts';

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

/** The authority that a renewal keeps; undefined if it is missing or damaged. */
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
  const about: Partial<IdentityFile> = objectIn(text) ?? {};
  const { deviceId, caFingerprint, serverFingerprint, createdAt } = about;
  if (typeof deviceId !== 'string' || typeof createdAt !== 'string') return undefined;
  if (caFingerprint !== fingerprintOf(caCert) || serverFingerprint !== fingerprintOf(serverChain)) return undefined;
  return { deviceId, caFingerprint, serverFingerprint, createdAt };
}

/** Of the first certificate in the text. */
export function fingerprintOf(pem: string): string {
  return new X509Certificate(pem).fingerprint256;
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
  const changes = [
    closed(etc.caKey, authority.key),
    open(etc.caCert, authority.cert),
    open(etc.serverCert, server.cert + authority.cert),
    ...tlsKeys.map((place) => closed(place, server.key)),
    open(etc.identity, `${JSON.stringify(file, null, 2)}\n`),
    // The version is not in it: an update would have to rewrite it.
    open(join(etc.announcements, 'lineside.service'), avahiService(file)),
  ];
  return { file, changes };
}

// How Avahi announces the box on the LAN (DNS-SD, avahi.service(5)): what `lineside discover` finds.

/** What is known of the box; the record that the package brings knows neither. */
type Announced = Partial<Pick<IdentityFile, 'deviceId' | 'caFingerprint'>>;

const GRPC_PORT = 50_051;
const HTTP_PORT = 8_443;

/**
 * /etc/avahi/services/lineside.service, in which %h is the host's name. A device id needs no escaping in XML, and fits into a
 * string of a TXT record (RFC 6763, 6.1: 255 bytes).
 */
export function avahiService({ deviceId, caFingerprint }: Announced): string {
  const known = { http: HTTP_PORT, id: deviceId, fp: caFingerprint?.replaceAll(':', '').toLowerCase() };
  const records = Object.entries(known).map(([key, value]) => {
    return value === undefined ? '' : `    <txt-record>${key}=${value}</txt-record>\n`;
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

// The authority and what it signs, made by the `openssl` command (3.0 and later).

export interface Pair {
  /** PEM. */
  readonly cert: string;
  readonly key: string;
}

/**
 * Long before any clock may stand at a first boot: the box has no clock battery. Before July 2019 too, since Apple's
 * devices refuse certificates from later that live longer than 825 days (support.apple.com/103769).
 */
const FLOOR = '20190101000000Z';
/** Clients that trust the authority have its fingerprint on paper: it outlives the box. */
const CA_END = '20991231235959Z';
/** A server certificate renews itself at a start in its last years (see RENEWAL_LEFT_MS); the authority stays. */
const SERVER_YEARS = 10;
const CLOCK_FLOOR_YEAR = 2026;
const DAY_MS = 86_400_000;
const RENEWAL_LEFT_MS = 2 * 365 * DAY_MS;
/** A generous bound: on a Pi Zero 2 a P-256 key and a signature take well below a second. */
const OPENSSL_LIMIT_MS = 60_000;
/** X.520's limit of a common name, in characters. */
const COMMON_NAME = 64;

/** `id`: of the box, which makes the names of two boxes' authorities different. */
function makeAuthority(id: string): Pair {
  using scratch = scratchDirectory();
  request(scratch.path, `lineside ${id}`.slice(0, COMMON_NAME));
  const extensions = [
    'basicConstraints=critical,CA:TRUE,pathlen:0',
    'keyUsage=critical,keyCertSign,cRLSign',
    'subjectKeyIdentifier=hash',
  ];
  return sign(scratch.path, { extensions, end: CA_END, by: ['-selfsign', '-keyfile', 'own.key'] });
}

/** `names`: host names and addresses that clients may call it by, the first one its common name. */
function makeServerPair(authority: Pair, names: readonly string[], nowMs: number): Pair {
  using scratch = scratchDirectory();
  const dir = scratch.path;
  request(dir, (names[0] ?? 'lineside').slice(0, COMMON_NAME));
  writeFileSync(join(dir, 'ca.crt'), authority.cert);
  writeFileSync(join(dir, 'ca.key'), authority.key, { mode: 0o600 });
  const alternatives = names.map((name) => `${isIP(name) === 0 ? 'DNS' : 'IP'}:${name}`);
  const extensions = [
    'basicConstraints=critical,CA:FALSE',
    'keyUsage=critical,digitalSignature',
    'extendedKeyUsage=serverAuth',
    'subjectKeyIdentifier=hash',
    'authorityKeyIdentifier=keyid',
    `subjectAltName=${alternatives.join(',')}`,
  ];
  return sign(dir, { extensions, end: serverEnd(nowMs), by: ['-cert', 'ca.crt', '-keyfile', 'ca.key'] });
}

/** Ten years from now; a clock that was never set counts from when this was written. */
function serverEnd(nowMs: number): string {
  const year = Math.max(Number(instantOfMs(nowMs).slice(0, 4)), CLOCK_FLOOR_YEAR) + SERVER_YEARS;
  return `${Math.min(year, 2098)}1231235959Z`;
}

function request(dir: string, name: string): void {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', 'own.key'];
  writeFileSync(join(dir, 'req.cnf'), '[req]\ndistinguished_name=dn\nprompt=no\n[dn]\n');
  openssl(dir, 'req', '-new', '-config', 'req.cnf', ...key, '-out', 'own.csr', '-subj', `/CN=${name}`);
}

interface Signing {
  readonly extensions: readonly string[];
  readonly end: string;
  readonly by: readonly string[];
}

/** `openssl ca`, since `openssl x509` takes no dates before 3.4. */
function sign(dir: string, { extensions, end, by }: Signing): Pair {
  writeFileSync(join(dir, 'index'), '');
  const own = ['[ca]', 'default_ca=own', '[own]', 'database=index', 'new_certs_dir=.', 'rand_serial=yes'];
  const rules = ['default_md=sha256', 'policy=any', 'x509_extensions=wanted', 'email_in_dn=no'];
  const lines = [...own, ...rules, '[any]', 'commonName=supplied', '[wanted]', ...extensions, ''];
  writeFileSync(join(dir, 'ca.cnf'), lines.join('\n'));
  const dates = ['-startdate', FLOOR, '-enddate', end];
  openssl(dir, 'ca', '-batch', '-notext', '-config', 'ca.cnf', ...by, '-in', 'own.csr', '-out', 'own.crt', ...dates);
  return { cert: readFileSync(join(dir, 'own.crt'), 'utf8'), key: readFileSync(join(dir, 'own.key'), 'utf8') };
}

/** Keys are in it while they are made; TMPDIR is memory where the service manager gives the unit its own. */
function scratchDirectory() {
  return mkdtempDisposableSync(join(tmpdir(), 'lineside-identity-'));
}

function openssl(cwd: string, ...args: string[]): void {
  try {
    // Its own configuration, not the machine's; RANDFILE would want a home directory.
    const env = { ...process.env, OPENSSL_CONF: '/dev/null', RANDFILE: join(cwd, 'rnd') };
    execFileSync('openssl', args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], timeout: OPENSSL_LIMIT_MS });
  } catch (error) {
    const missing = systemCode(error) === 'ENOENT';
    throw new LinesideError('INTERNAL', missing ? 'there is no openssl command' : `openssl: ${messageOf(error)}`, {
      cause: error,
      hint: missing ? 'install the Debian package openssl' : '',
    });
  }
}
