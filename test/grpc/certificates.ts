/** Real certificates, made with the openssl command: a CA, a server, clients good and bad. */
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Pair {
  readonly certFile: string;
  readonly keyFile: string;
  readonly cert: Buffer;
  readonly key: Buffer;
}

export class Authority {
  readonly #dir: string;
  readonly #name: string;
  readonly root: Pair;

  constructor(dir: string, name: string) {
    this.#dir = dir;
    this.#name = name;
    const key = this.#newKey(name);
    const cert = join(dir, `${name}.pem`);
    openssl('req', '-x509', '-new', '-key', key, '-subj', `/CN=${name}`, '-days', '2', '-out', cert);
    this.root = pair(cert, key);
  }

  /** `subject` in openssl's form ("/CN=laptop"); `days` may be negative: expired. */
  issue(file: string, subject: string, days = 2): Pair {
    const key = this.#newKey(file);
    const request = join(this.#dir, `${file}.csr`);
    const cert = join(this.#dir, `${file}.pem`);
    const extensions = join(this.#dir, `${file}.ext`);
    writeFileSync(extensions, 'subjectAltName=IP:127.0.0.1,DNS:localhost\n');
    openssl('req', '-new', '-key', key, '-subj', subject, '-out', request);
    const ca = ['-CA', this.root.certFile, '-CAkey', this.root.keyFile, '-CAcreateserial'];
    const dates =
      days > 0 ? ['-days', String(days)] : ['-not_before', '20200101000000Z', '-not_after', '20200102000000Z'];
    if (days > 0 || canDate())
      openssl('x509', '-req', '-in', request, ...ca, ...dates, '-extfile', extensions, '-out', cert);
    else this.#issueExpired(request, cert, extensions);
    return pair(cert, key);
  }

  /** openssl before 3.4 dates certificates in the past only through `openssl ca`. */
  #issueExpired(request: string, cert: string, extensions: string): void {
    const database = join(this.#dir, `${this.#name}.index`);
    const config = join(this.#dir, `${this.#name}.cnf`);
    writeFileSync(database, '');
    writeFileSync(
      config,
      `[ca]\ndefault_ca=d\n[d]\ndatabase=${database}\nnew_certs_dir=${this.#dir}\nrand_serial=yes\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n`,
    );
    const dates = ['-startdate', '20200101000000Z', '-enddate', '20200102000000Z'];
    const ca = ['-cert', this.root.certFile, '-keyfile', this.root.keyFile];
    openssl(
      'ca',
      '-batch',
      '-config',
      config,
      ...ca,
      ...dates,
      '-extfile',
      extensions,
      '-in',
      request,
      '-out',
      cert,
      '-notext',
    );
  }

  #newKey(name: string): string {
    const key = join(this.#dir, `${name}.key`);
    openssl('ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', key);
    return key;
  }
}

function canDate(): boolean {
  const [, major, minor] = /OpenSSL (\d+)\.(\d+)/.exec(execFileSync('openssl', ['version']).toString()) ?? [];
  return Number(major) > 3 || (Number(major) === 3 && Number(minor) >= 4);
}

function pair(certFile: string, keyFile: string): Pair {
  return { certFile, keyFile, cert: readFileSync(certFile), key: readFileSync(keyFile) };
}

function openssl(...args: string[]): void {
  execFileSync('openssl', args, { stdio: ['ignore', 'ignore', 'pipe'] });
}
