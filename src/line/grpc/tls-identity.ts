/**
 * The certificate of the TLS addresses, which may be replaced while they listen: connections from then on get the new one,
 * those that are open keep theirs. As long as none can be used the addresses stay open and every handshake fails: the line
 * works on, and the next reload may bring a good one.
 */
import { createServer, type Server } from 'node:tls';
import { MAX_HANDSHAKE_MS, readTlsFiles, TLS_PROFILE, type TlsFiles } from '../../shared/auth/tls-files.ts';
import { asLinesideError } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import type { Config } from '../../shared/config/config.ts';

type TlsKey = 'tls.cert_file' | 'tls.key_file' | 'tls.client_ca_file';

export class TlsIdentity {
  readonly #logger: Logger;
  readonly #asksForCertificates: boolean;
  readonly #servers: Server[] = [];
  #tls: Config['tls'];
  #files: TlsFiles | undefined;

  /** If the files cannot be used, that is logged, and `fault` says it. */
  static async read(tls: Config['tls'], logger: Logger): Promise<TlsIdentity> {
    const identity = new TlsIdentity(tls, logger);
    await identity.#take(tls);
    return identity;
  }

  private constructor(tls: Config['tls'], logger: Logger) {
    this.#tls = tls;
    this.#logger = logger;
    this.#asksForCertificates = tls.clientCaFile !== '';
  }

  /** '' if there is a certificate. */
  get fault(): string {
    return this.#files === undefined ? 'TLS CERTIFICATE FAULTY (see the journal), other machines are not served' : '';
  }

  /** A client certificate may be shown, and need not: a token will do as well. */
  createServer(): Server {
    const server = createServer({
      ...TLS_PROFILE,
      ...this.#files,
      ALPNProtocols: ['h2'],
      handshakeTimeout: MAX_HANDSHAKE_MS,
      requestCert: this.#asksForCertificates,
      rejectUnauthorized: false,
      noDelay: true,
    });
    this.#servers.push(server);
    return server;
  }

  /** Reads the files again. Answers the keys that it could not take: the certificate in use stays. */
  async renew(tls: Config['tls']): Promise<readonly TlsKey[]> {
    if (tls.certFile === '' || (tls.clientCaFile !== '') !== this.#asksForCertificates) {
      return changedTlsKeys(this.#tls, tls);
    }
    return (await this.#take(tls)) ? [] : ['tls.cert_file', 'tls.key_file'];
  }

  async #take(tls: Config['tls']): Promise<boolean> {
    try {
      this.#files = await readTlsFiles(tls);
    } catch (error) {
      const { message } = asLinesideError(error);
      // A key that is a credential of systemd's stays what it was at the start, while the certificate beside it may be renewed.
      const hint = 'if the key was renewed too, restart the service; else correct the files and reload';
      this.#logger.error('the TLS certificate was not taken', { error: message, hint });
      return false;
    }
    this.#tls = tls;
    for (const server of this.#servers) server.setSecureContext({ ...TLS_PROFILE, ...this.#files });
    return true;
  }
}

export function changedTlsKeys(before: Config['tls'], after: Config['tls']): readonly TlsKey[] {
  const names = {
    'tls.cert_file': 'certFile',
    'tls.key_file': 'keyFile',
    'tls.client_ca_file': 'clientCaFile',
  } as const;
  const keys: readonly TlsKey[] = ['tls.cert_file', 'tls.key_file', 'tls.client_ca_file'];
  return keys.filter((key) => before[names[key]] !== after[names[key]]);
}
