/** Certificates for a test's directory, by openssl: a CA and what it signs. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];

/** Two moments in openssl's form. */
interface Valid {
  readonly from: string;
  readonly to: string;
}

/** For clocks that jump by years. */
export const lasting: Valid = { from: '19800101000000Z', to: '20990101000000Z' };

interface Signing {
  /** Name of the CA. */
  readonly ca?: string;
  /** In openssl's form. Default: /CN=NAME. */
  readonly subject?: string;
  /** Default: two days from now on. */
  readonly valid?: Valid | undefined;
}

/** NAME.pem and NAME.key. */
export function makeCa(dir: string, name = 'ca', valid?: Valid): void {
  request(dir, name, `/CN=${name}`, 'basicConstraints=critical,CA:TRUE');
  sign(dir, name, valid, '-selfsign', '-keyfile', `${name}.key`);
}

/** NAME.pem and NAME.key, signed by a CA; `names`: "DNS:box.test,IP:127.0.0.1". */
export function signed(dir: string, name: string, names: string, signing: Signing = {}): void {
  const { ca = 'ca', subject = `/CN=${name}`, valid } = signing;
  request(dir, name, subject, `subjectAltName=${names}`);
  sign(dir, name, valid, '-cert', `${ca}.pem`, '-keyfile', `${ca}.key`);
}

/** NAME.pem and NAME.key, self-signed. */
export function selfSigned(dir: string, name: string, names: string): void {
  request(dir, name, `/CN=${name}`, `subjectAltName=${names}`);
  sign(dir, name, undefined, '-selfsign', '-keyfile', `${name}.key`);
}

/** NAME.pem and NAME.key, self-signed, valid for so many days; the path of NAME.pem. */
export function lastingDays(dir: string, name: string, days: number): string {
  const own = ['-x509', '-subj', `/CN=${name}`, '-days', String(days)];
  openssl(dir, 'req', ...key, ...own, '-keyout', `${name}.key`, '-out', `${name}.pem`);
  return join(dir, `${name}.pem`);
}

export interface Pair {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** An authority for servers and clients at 127.0.0.1. */
export class Authority {
  readonly #dir: string;
  readonly #name: string;
  readonly root: Pair;

  constructor(dir: string, name: string) {
    this.#dir = dir;
    this.#name = name;
    makeCa(dir, name);
    this.root = pairIn(dir, name);
  }

  issue(name: string, subject: string, valid?: Valid): Pair {
    signed(this.#dir, name, 'IP:127.0.0.1,DNS:localhost', { ca: this.#name, subject, valid });
    return pairIn(this.#dir, name);
  }
}

function pairIn(dir: string, name: string): Pair {
  const [certFile, keyFile] = [join(dir, `${name}.pem`), join(dir, `${name}.key`)];
  return { certFile, keyFile, cert: readFileSync(certFile), key: readFileSync(keyFile) };
}

/** NAME.key and NAME.csr. */
function request(dir: string, name: string, subject: string, extension: string): void {
  const wanted = ['-subj', subject, '-addext', extension];
  openssl(dir, 'req', ...key, ...wanted, '-keyout', `${name}.key`, '-out', `${name}.csr`);
}

/** By "openssl ca", which alone can date certificates in the past before openssl 3.4. */
function sign(dir: string, name: string, valid: Valid | undefined, ...by: string[]): void {
  writeFileSync(join(dir, `${name}.index`), '');
  const config = ['[ca]', 'default_ca=own', '[own]', `database=${name}.index`, 'new_certs_dir=.', 'rand_serial=yes'];
  const rules = ['default_md=sha256', 'policy=any', 'copy_extensions=copy', '[any]', 'commonName=supplied'];
  writeFileSync(join(dir, `${name}.cnf`), [...config, ...rules, ''].join('\n'));
  const dates = valid === undefined ? ['-days', '2'] : ['-startdate', valid.from, '-enddate', valid.to];
  const files = ['-in', `${name}.csr`, '-out', `${name}.pem`];
  openssl(dir, 'ca', '-batch', '-notext', '-config', `${name}.cnf`, ...by, ...files, ...dates);
}

function openssl(cwd: string, ...args: string[]): void {
  execFileSync('openssl', args, { cwd, stdio: 'pipe' });
}
