/**
 * The certificate of the TLS addresses, which may be replaced while they listen: connections from then on get the new one,
 * those that are open keep theirs.
 */
import { experimental, type ServerCredentials } from '@grpc/grpc-js';
import type { Config } from '../../config/config.ts';
import { readTlsFiles, type TlsFiles } from '../../config/tls-files.ts';

type Listener<Update> = (update: Update) => void;
type CaListener = Listener<experimental.CaCertificateUpdate | null>;
type IdentityListener = Listener<experimental.IdentityCertificateUpdate | null>;

export class TlsIdentity implements experimental.CertificateProvider {
  readonly credentials: ServerCredentials;
  #files: TlsFiles;
  readonly #ofCa = new Set<CaListener>();
  readonly #ofIdentity = new Set<IdentityListener>();

  /** CONFIG_INVALID where the files cannot be read or do not fit. */
  static async read(tls: Config['tls']): Promise<TlsIdentity> {
    return new TlsIdentity(await readTlsFiles(tls));
  }

  private constructor(files: TlsFiles) {
    this.#files = files;
    // createSsl() knows only "no client certificate" and "none else": a token must do instead of one.
    const asked = files.ca === undefined ? null : this;
    this.credentials = experimental.createCertificateProviderServerCredentials(this, asked, false);
  }

  /** Reads the files again. CONFIG_INVALID: they stay as they were. False: client certificates are asked for, or not, from the start. */
  async renew(tls: Config['tls']): Promise<boolean> {
    const asksBefore = this.#files.ca !== undefined;
    const files = await readTlsFiles(tls);
    if ((files.ca !== undefined) !== asksBefore) return false;
    this.#files = files;
    for (const listener of this.#ofCa) this.#tellCa(listener);
    for (const listener of this.#ofIdentity) this.#tellIdentity(listener);
    return true;
  }

  // Told in a later step: grpc-js listens to its own credentials only after it has listened to these.

  addCaCertificateListener(listener: CaListener): void {
    this.#ofCa.add(listener);
    queueMicrotask(() => this.#tellCa(listener));
  }

  removeCaCertificateListener(listener: CaListener): void {
    this.#ofCa.delete(listener);
  }

  addIdentityCertificateListener(listener: IdentityListener): void {
    this.#ofIdentity.add(listener);
    queueMicrotask(() => this.#tellIdentity(listener));
  }

  removeIdentityCertificateListener(listener: IdentityListener): void {
    this.#ofIdentity.delete(listener);
  }

  #tellCa(listener: CaListener): void {
    const { ca } = this.#files;
    listener(ca === undefined ? null : { caCertificate: ca });
  }

  #tellIdentity(listener: IdentityListener): void {
    const { cert: certificate, key: privateKey } = this.#files;
    listener({ certificate, privateKey });
  }
}
