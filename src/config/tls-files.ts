/** The certificate and key of [tls], read and found to fit each other. */
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { LinesideError, messageOf } from '../base/errors.ts';
import type { Config } from './config.ts';

export interface TlsFiles {
  readonly cert: Buffer;
  readonly key: Buffer;
  /** Authorities of client certificates; undefined: none are named. */
  readonly ca: Buffer | undefined;
}

/** CONFIG_INVALID where a file cannot be read or they do not fit: servers would only drop every connection. */
export async function readTlsFiles(tls: Config['tls']): Promise<TlsFiles> {
  const [cert, key] = await Promise.all([read(tls.certFile), read(tls.keyFile)]);
  const ca = tls.clientCaFile === '' ? undefined : await read(tls.clientCaFile);
  try {
    createSecureContext({ cert, key, ...(ca !== undefined && { ca }) });
  } catch (error) {
    throw new LinesideError('CONFIG_INVALID', `tls: the certificate or key cannot be used: ${messageOf(error)}`, {
      cause: error,
      hint: `see ${tls.certFile}, ${tls.keyFile} and tls.client_ca_file`,
    });
  }
  return { cert, key, ca };
}

async function read(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new LinesideError('CONFIG_INVALID', `cannot read ${file}: ${messageOf(error)}`, { cause: error });
  }
}
