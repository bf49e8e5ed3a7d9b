/** Whose certificates of subscribers are believed: Node's roots, and those of webhooks.ca_file. */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { LinesideError, messageOf } from '../../shared/base/errors.ts';

const block = /-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g;

/** '': Node's roots alone. CONFIG_INVALID where the file cannot be read or holds no certificate. */
export function readTrust(caFile: string): SecureContext {
  const own = caFile === '' ? [] : certificatesOf(caFile);
  return createSecureContext({ minVersion: 'TLSv1.2', ca: [...getCACertificates('default'), ...own] });
}

function certificatesOf(file: string): readonly string[] {
  try {
    const found = readFileSync(file, 'utf8').match(block) ?? [];
    if (found.length === 0) throw new Error('it holds no certificate in PEM form');
    return found.map((pem) => new X509Certificate(pem).toString());
  } catch (error) {
    throw new LinesideError('CONFIG_INVALID', `webhooks.ca_file ${file} cannot be used: ${messageOf(error)}`, {
      cause: error,
      hint: 'name a file with the certificates of the authorities in PEM form, or leave the key empty',
    });
  }
}
