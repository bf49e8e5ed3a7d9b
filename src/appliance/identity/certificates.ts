/** The box's own certificate authority and what it signs, made by the `openssl` command (3.0 and later). */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LinesideError, messageOf, systemCode } from '../../shared/base/errors.ts';
import { instantOfMs } from '../../shared/base/instant.ts';

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
/** Who trusts the authority has its fingerprint on paper: it outlives the box. */
const CA_END = '20991231235959Z';
/** A server certificate renews itself at a start in its last years (see RENEWAL_LEFT_MS); the authority stays. */
const SERVER_YEARS = 10;
const CLOCK_FLOOR_YEAR = 2026;
const DAY_MS = 86_400_000;
export const RENEWAL_LEFT_MS = 2 * 365 * DAY_MS;
/** A generous bound: on a Pi Zero 2 a P-256 key and a signature take well below a second. */
const OPENSSL_LIMIT_MS = 60_000;
/** X.520's limit of a common name, in characters. */
const COMMON_NAME = 64;

/** `id`: of the box, so that two boxes' authorities can be told apart by name. */
export function makeAuthority(id: string): Pair {
  return inScratch((dir) => {
    const name = `lineside ${id}`.slice(0, COMMON_NAME);
    request(dir, name);
    const extensions = [
      'basicConstraints=critical,CA:TRUE,pathlen:0',
      'keyUsage=critical,keyCertSign,cRLSign',
      'subjectKeyIdentifier=hash',
    ];
    return sign(dir, { extensions, end: CA_END, by: ['-selfsign', '-keyfile', 'own.key'] });
  });
}

/** `names`: host names and addresses that clients may call it by, the first one its common name. */
export function makeServerPair(authority: Pair, names: readonly string[], nowMs: number): Pair {
  return inScratch((dir) => {
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
  });
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
function inScratch<T>(work: (dir: string) => T): T {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-identity-'));
  try {
    return work(dir);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
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
