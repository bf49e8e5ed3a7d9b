/** Certificates for one broker, new each time: an authority, a good one, one that has expired, and a stranger's authority. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Certificates {
  readonly caFile: string;
  /** Of an authority that has signed nothing here. */
  readonly strangerCaFile: string;
  /** Key (PKCS#8) and certificate in one file, as Kafka's PEM key stores want it. */
  readonly goodFile: string;
  readonly expiredFile: string;
}

const NAMES = 'subjectAltName=DNS:localhost,IP:127.0.0.1';
const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];

export function makeCertificates(dir: string): Certificates {
  mkdirSync(dir, { recursive: true });
  const file = (name: string): string => join(dir, name);
  const openssl = (...args: string[]): void => void execFileSync('openssl', args, { stdio: 'pipe' });
  const authority = (name: string): string => {
    const subject = `/CN=lineside test authority ${name}`;
    openssl(
      'req',
      '-x509',
      ...KEY,
      '-keyout',
      file(`${name}.key`),
      '-out',
      file(`${name}.pem`),
      '-days',
      '30',
      '-subj',
      subject,
    );
    return file(`${name}.pem`);
  };
  const signed = (name: string, days: string): string => {
    const [key, request, certificate, names] = ['key', 'csr', 'crt', 'ext'].map((end) => file(`${name}.${end}`));
    if (!key || !request || !certificate || !names) throw new Error('unreachable');
    writeFileSync(names, NAMES);
    openssl('req', '-new', ...KEY, '-keyout', key, '-out', request, '-subj', '/CN=localhost');
    const by = ['-CA', file('ca.pem'), '-CAkey', file('ca.key'), '-CAcreateserial'];
    openssl('x509', '-req', '-in', request, ...by, '-days', days, '-extfile', names, '-out', certificate);
    writeFileSync(file(`${name}.pem`), readFileSync(key, 'utf8') + readFileSync(certificate, 'utf8'));
    return file(`${name}.pem`);
  };
  return {
    caFile: authority('ca'),
    strangerCaFile: authority('stranger'),
    goodFile: signed('good', '30'),
    expiredFile: signed('expired', '-1'),
  };
}
