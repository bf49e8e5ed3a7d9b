/** TLS for those who connect: the suites, and the certificate and key of [tls], read and found to fit each other. */
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { LinesideError, messageOf } from '../base/errors.ts';

/**
 * For every TLS server of the product: the "intermediate" profile of Mozilla's guidelines (5.7), without its DHE suites,
 * which would need parameters of their own. No HSTS: with a private authority and no clock battery it could lock
 * technicians out.
 */
export const TLS_PROFILE = {
  minVersion: 'TLSv1.2',
  ciphers: [
    'TLS_AES_128_GCM_SHA256',
    'TLS_AES_256_GCM_SHA384',
    'TLS_CHACHA20_POLY1305_SHA256',
    'ECDHE-ECDSA-AES128-GCM-SHA256',
    'ECDHE-RSA-AES128-GCM-SHA256',
    'ECDHE-ECDSA-AES256-GCM-SHA384',
    'ECDHE-RSA-AES256-GCM-SHA384',
    'ECDHE-ECDSA-CHACHA20-POLY1305',
    'ECDHE-RSA-CHACHA20-POLY1305',
  ].join(':'),
  // The client knows which of them its processor does fast.
  honorCipherOrder: false,
} as const;

/** A TLS handshake takes two round trips. */
export const MAX_HANDSHAKE_MS = 10_000;

/** The section [tls]; clientCaFile may be ''. */
interface TlsPaths {
  readonly certFile: string;
  readonly keyFile: string;
  readonly clientCaFile: string;
}

export interface TlsFiles {
  readonly cert: Buffer;
  readonly key: Buffer;
  /** Authorities of client certificates; absent: none are named. */
  readonly ca?: Buffer;
}

/** CONFIG_INVALID if a file cannot be read or they do not fit: servers would only drop every connection. */
export async function readTlsFiles(tls: TlsPaths): Promise<TlsFiles> {
  const [cert, key] = await Promise.all([read(tls.certFile), read(tls.keyFile)]);
  const files = { cert, key, ...(tls.clientCaFile !== '' && { ca: await read(tls.clientCaFile) }) };
  try {
    createSecureContext({ ...TLS_PROFILE, ...files });
  } catch (error) {
    throw new LinesideError('CONFIG_INVALID', `tls: the certificate or key cannot be used: ${messageOf(error)}`, {
      cause: error,
      hint: `see ${tls.certFile}, ${tls.keyFile} and tls.client_ca_file`,
    });
  }
  return files;
}

async function read(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new LinesideError('CONFIG_INVALID', `cannot read ${file}: ${messageOf(error)}`, { cause: error });
  }
}
