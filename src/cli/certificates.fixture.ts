/** Certificates for a test's directory, by openssl: a CA and what it signs. */
import { execFileSync } from 'node:child_process';

const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'];

/** ca.pem and ca.key. */
export function makeCa(dir: string): void {
  const own = ['-x509', '-subj', '/CN=Test CA', '-addext', 'basicConstraints=critical,CA:TRUE'];
  openssl(dir, 'req', ...curve, '-keyout', 'ca.key', '-out', 'ca.pem', ...own);
}

/** NAME.pem and NAME.key, signed by the CA; `names`: "DNS:box.test,IP:127.0.0.1". */
export function signed(dir: string, name: string, names: string): void {
  const subject = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=${names}`];
  openssl(dir, 'req', ...curve, '-keyout', `${name}.key`, '-out', `${name}.csr`, ...subject);
  const ca = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-days', '2', '-copy_extensions', 'copy'];
  openssl(dir, 'x509', '-req', '-in', `${name}.csr`, ...ca, '-out', `${name}.pem`);
}

function openssl(cwd: string, ...args: string[]): void {
  execFileSync('openssl', args, { cwd, stdio: 'pipe' });
}
