/** Expiry of the certificates that the configuration names. The files are re-read: an operator may replace one. */
import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type Alert, Alerts } from '../../shared/base/alerts.ts';
import type { Clock } from '../../shared/base/clock.ts';
import { type CertificateEnd, certificateRules } from './alerts.ts';

export interface CertificateFile {
  /** The key of the configuration: "tls.cert_file". */
  readonly key: string;
  /** '': none. */
  readonly file: string;
  /** A chain expires with its first certificate; authorities with their last. */
  readonly kind: 'chain' | 'authorities';
}

/** A system's bundle of authorities has 150. */
const MAX_CERTIFICATES = 1_000;
const PEM = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g;

export class Certificates {
  readonly #files: readonly CertificateFile[];
  readonly #clock: Clock;
  readonly #alerts = new Alerts(certificateRules);
  ends: readonly CertificateEnd[] = [];

  constructor(files: readonly CertificateFile[], clock: Clock) {
    this.#files = files.filter(({ file }) => file !== '');
    this.#clock = clock;
  }

  /** Never rejects: a file that cannot be read has no end; the part that uses it reports that. */
  async look(): Promise<void> {
    const ends = await Promise.all(
      this.#files.map(async ({ key, file, kind }): Promise<CertificateEnd[]> => {
        const endsAtSeconds = endOf(await readFile(file, 'utf8').catch(() => ''), kind);
        return endsAtSeconds === undefined ? [] : [{ key, endsAtSeconds }];
      }),
    );
    this.ends = ends.flat();
  }

  alerts(): readonly Alert[] {
    const nowS = this.#clock.wallMs() / 1_000;
    const left = this.ends.map(({ key, endsAtSeconds }) => ({ key, seconds: endsAtSeconds - nowS }));
    return this.#alerts.look({ left }, this.#clock.monoMs());
  }
}

/** undefined: no certificate can be read. */
export function endOf(pem: string, kind: CertificateFile['kind']): number | undefined {
  const ends: number[] = [];
  for (const [text] of pem.matchAll(PEM)) {
    if (ends.length >= MAX_CERTIFICATES) break;
    try {
      ends.push(Math.floor(new X509Certificate(text).validToDate.getTime() / 1_000));
    } catch {
      // The file may have others.
    }
  }
  if (ends.length === 0) return undefined;
  return kind === 'chain' ? Math.min(...ends) : Math.max(...ends);
}
