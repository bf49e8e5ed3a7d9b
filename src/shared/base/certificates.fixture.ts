/** Certificates for a test's directory, by openssl: a CA and what it signs. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';

const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];
const curve = [...key, '-days', '2'];
const lasting = { from: '19800101000000Z', to: '20990101000000Z' };

/** ca.pem and ca.key; of another name: NAME.pem and NAME.key. */
export function makeCa(dir: string, name = 'ca'): void {
  const own = ['-x509', '-subj', '/CN=Test CA', '-addext', 'basicConstraints=critical,CA:TRUE'];
  openssl(dir, 'req', ...curve, '-keyout', `${name}.key`, '-out', `${name}.pem`, ...own);
}

/** NAME.pem and NAME.key, signed by the CA; `names`: "DNS:box.test,IP:127.0.0.1". */
export function signed(dir: string, name: string, names: string): void {
  request(dir, name, names);
  const ca = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-days', '2', '-copy_extensions', 'copy'];
  openssl(dir, 'x509', '-req', '-in', `${name}.csr`, ...ca, '-out', `${name}.pem`);
}

/** NAME.pem and NAME.key, signed by itself. */
export function selfSigned(dir: string, name: string, names: string): void {
  const own = ['-x509', '-subj', `/CN=${name}`, '-addext', `subjectAltName=${names}`];
  openssl(dir, 'req', ...curve, '-keyout', `${name}.key`, '-out', `${name}.pem`, ...own);
}

/** NAME.pem and NAME.key, signed by itself, valid for so many days; the path of NAME.pem. */
export function lastingDays(dir: string, name: string, days: number): string {
  const own = ['-x509', '-subj', `/CN=${name}`, '-days', String(days)];
  openssl(dir, 'req', ...key, ...own, '-keyout', `${name}.key`, '-out', `${name}.pem`);
  return join(dir, `${name}.pem`);
}

/** As makeCa, for clocks that jump by years. */
export function makeLastingCa(dir: string): void {
  const name = 'ca';
  const own = ['-subj', '/CN=Test CA', '-addext', 'basicConstraints=critical,CA:TRUE'];
  openssl(dir, 'req', ...key, '-keyout', `${name}.key`, '-out', `${name}.csr`, ...own);
  sign(dir, name, lasting, '-selfsign');
}

/** As `signed`, valid between two moments ("20200101000000Z"). */
export function signedFor(dir: string, name: string, names: string, valid = lasting): void {
  request(dir, name, names);
  sign(dir, name, valid, '-cert', 'ca.pem');
}

function sign(dir: string, name: string, valid: typeof lasting, ...by: string[]): void {
  writeFileSync(join(dir, `${name}.index`), '');
  const config = ['[ca]', 'default_ca=own', '[own]', `database=${name}.index`, 'new_certs_dir=.', 'rand_serial=yes'];
  const rules = ['default_md=sha256', 'policy=any', 'copy_extensions=copy', '[any]', 'commonName=supplied'];
  writeFileSync(join(dir, `${name}.cnf`), [...config, ...rules, ''].join('\n'));
  const between = ['-startdate', valid.from, '-enddate', valid.to];
  const files = ['-keyfile', 'ca.key', '-in', `${name}.csr`, '-out', `${name}.pem`];
  openssl(dir, 'ca', '-batch', '-notext', '-config', `${name}.cnf`, ...by, ...files, ...between);
}

/** NAME.key and NAME.csr. */
function request(dir: string, name: string, names: string): void {
  const subject = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=${names}`];
  openssl(dir, 'req', ...key, '-keyout', `${name}.key`, '-out', `${name}.csr`, ...subject);
}

function openssl(cwd: string, ...args: string[]): void {
  execFileSync('openssl', args, { cwd, stdio: 'pipe' });
}
