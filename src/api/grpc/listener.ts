/** One address to listen on: its credentials, the Unix socket's file. */
import { chmod, lstat, readFile, unlink } from 'node:fs/promises';
import { connect } from 'node:net';
import { createSecureContext } from 'node:tls';
import { experimental, ServerCredentials } from '@grpc/grpc-js';
import { LinesideError, messageOf, systemCode } from '../../base/errors.ts';
import type { Config, ListenAddress } from '../../config/config.ts';

/** Owner and group: who may use the line is who is in the service's group. */
const SOCKET_MODE = 0o660;

/** True where whoever reaches the address is trusted: the file permissions, or the machine's own users. */
export function isTrusted(address: ListenAddress, config: Config): boolean {
  return address.kind === 'unix' || address.loopback || config.grpc.insecure;
}

/** TLS where it is configured and the address is reached from other machines; this machine's own need none. */
export async function credentialsFor(address: ListenAddress, { tls }: Config): Promise<ServerCredentials> {
  if (address.kind === 'unix' || address.loopback || tls.certFile === '') return ServerCredentials.createInsecure();
  const [certificate, privateKey] = await Promise.all([read(tls.certFile), read(tls.keyFile)]);
  const ca = tls.clientCaFile === '' ? undefined : await read(tls.clientCaFile);
  checkPair(certificate, privateKey, ca, tls);
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

/** grpc-js would only log that they do not fit, and then drop every connection. */
function checkPair(cert: Buffer, key: Buffer, ca: Buffer | undefined, tls: Config['tls']): void {
  try {
    createSecureContext({ cert, key, ...(ca !== undefined && { ca }) });
  } catch (error) {
    throw new LinesideError('CONFIG_INVALID', `tls: the certificate or key cannot be used: ${messageOf(error)}`, {
      cause: error,
      hint: `see ${tls.certFile}, ${tls.keyFile} and tls.client_ca_file`,
    });
  }
}

async function read(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new LinesideError('CONFIG_INVALID', `cannot read ${file}: ${messageOf(error)}`, { cause: error });
  }
}

/** Removes a socket that a killed process left behind; one that somebody answers on, or any other file, is left alone. */
export async function clearStaleSocket(path: string): Promise<void> {
  try {
    const found = await lstat(path);
    if (!found.isSocket()) {
      throw new LinesideError('CONFIG_INVALID', `${path} exists and is no socket`, {
        hint: 'remove it, or set grpc.listen to another path',
      });
    }
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return;
    throw error;
  }
  if (await answers(path)) {
    throw new LinesideError('CONFIG_INVALID', `another process listens on ${path}`, {
      hint: 'is lineside running already?',
    });
  }
  await unlink(path);
}

function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const end = (answered: boolean): void => {
      socket.destroy();
      resolve(answered);
    };
    socket.once('connect', () => end(true));
    // ECONNREFUSED: bound by nobody. Anything else (EACCES, EAGAIN) may be somebody.
    socket.once('error', (error) => end(systemCode(error) !== 'ECONNREFUSED'));
  });
}

export async function protectSocket(path: string): Promise<void> {
  await chmod(path, SOCKET_MODE);
}

export async function removeSocket(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
  }
}
