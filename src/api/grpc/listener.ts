/** One address to listen on: who is trusted there, and its credentials. */
import { experimental, ServerCredentials } from '@grpc/grpc-js';
import type { Config, ListenAddress } from '../../config/config.ts';
import { readTlsFiles } from '../../config/tls-files.ts';

/** True where whoever reaches the address is trusted: the file permissions, or the machine's own users. */
export function isTrusted(address: ListenAddress, config: Config): boolean {
  return address.kind === 'unix' || address.loopback || config.grpc.insecure;
}

/** TLS where it is configured and the address is reached from other machines; this machine's own need none. */
export async function credentialsFor(address: ListenAddress, { tls }: Config): Promise<ServerCredentials> {
  if (address.kind === 'unix' || address.loopback || tls.certFile === '') return ServerCredentials.createInsecure();
  const { cert: certificate, key: privateKey, ca } = await readTlsFiles(tls);
  if (ca === undefined) {
    return ServerCredentials.createSsl(null, [{ cert_chain: certificate, private_key: privateKey }], false);
  }
  // createSsl() knows only "no client certificate" and "none else": a token must do instead of one.
  const identity = { certificate, privateKey };
  // Told in a later step: grpc-js listens to its own credentials only after it has listened to these.
  const provider: experimental.CertificateProvider = {
    addCaCertificateListener: (listener) => queueMicrotask(() => listener({ caCertificate: ca })),
    removeCaCertificateListener: () => {},
    addIdentityCertificateListener: (listener) => queueMicrotask(() => listener(identity)),
    removeIdentityCertificateListener: () => {},
  };
  return experimental.createCertificateProviderServerCredentials(provider, provider, false);
}
