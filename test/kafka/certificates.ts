/** Certificates for one broker, new each time: an authority, a good one, one that has expired, and a stranger's authority. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { lasting, makeCa, signed } from '../../src/shared/base/certificates.fixture.ts';

export interface Certificates {
  readonly caFile: string;
  /** Of an authority that has signed nothing here. */
  readonly strangerCaFile: string;
  /** Key (PKCS#8) and certificate in one file, as Kafka's PEM key stores want it. */
  readonly goodFile: string;
  readonly expiredFile: string;
}

const NAMES = 'DNS:localhost,IP:127.0.0.1';
const PAST = { from: '20200101000000Z', to: '20200201000000Z' };

export function certificatesIn(dir: string): Certificates {
  const file = (name: string): string => join(dir, name);
  return {
    caFile: file('ca.pem'),
    strangerCaFile: file('stranger.pem'),
    goodFile: file('good.pem'),
    expiredFile: file('expired.pem'),
  };
}

export function makeCertificates(dir: string): void {
  mkdirSync(dir, { recursive: true });
  makeCa(dir, 'ca', lasting);
  makeCa(dir, 'stranger');
  signed(dir, 'good', NAMES, { valid: lasting });
  signed(dir, 'expired', NAMES, { valid: PAST });
  for (const name of ['good', 'expired']) {
    const read = (end: string): string => readFileSync(join(dir, `${name}.${end}`), 'utf8');
    writeFileSync(join(dir, `${name}.pem`), read('key') + read('pem'));
  }
}
