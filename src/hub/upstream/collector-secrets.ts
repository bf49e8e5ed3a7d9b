/** What a connection to a collector is made with: the authority's certificate, and the token, which is never quoted anywhere. */
import { readFile } from 'node:fs/promises';
import { LinesideError, systemCode } from '../../shared/base/errors.ts';
import { isLoopback, parseListen } from '../../shared/config/listen.ts';

export interface CollectorOptions {
  /** host:port, [v6]:port */
  readonly address: string;
  readonly deviceId: string;
  /** '': no token. */
  readonly tokenFile: string;
  /** PEM; '': the authorities of the system. */
  readonly caFile: string;
  /** Plaintext, also to another machine. */
  readonly insecure: boolean;
  /** With gzip. */
  readonly compresses: boolean;
}

export interface CollectorSecrets {
  /** No TLS. */
  readonly isPlain: boolean;
  /** undefined: the authorities of the system. */
  readonly ca: Buffer | undefined;
  /** '': none. */
  readonly token: string;
}

export async function readCollectorSecrets(options: CollectorOptions): Promise<CollectorSecrets> {
  const { tokenFile, caFile } = options;
  const isPlain = isPlainLink(options);
  const ca = isPlain || caFile === '' ? undefined : await read(caFile);
  return { isPlain, ca, token: tokenFile === '' ? '' : tokenIn(tokenFile, (await read(tokenFile)).toString('utf8')) };
}

/** Without TLS: where that is asked for, or nothing leaves this machine and no authority is named. */
export function isPlainLink({ address, caFile, insecure }: CollectorOptions): boolean {
  if (insecure) return true;
  const parsed = parseListen(address, '/');
  return caFile === '' && typeof parsed !== 'string' && parsed.kind === 'tcp' && isLoopback(parsed.host);
}

/** RFC 6750's token68: anything else is no token, and must reach neither a header nor the journal. */
function tokenIn(file: string, text: string): string {
  const token = text.trim();
  if (/^[A-Za-z0-9._~+/=-]{1,4096}$/.test(token)) return token;
  const fault = token === '' ? 'it is empty' : 'it does not hold one token and nothing else';
  throw new LinesideError('CONFIG_INVALID', `cannot use ${file}: ${fault}`);
}

async function read(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (error) {
    throw new LinesideError('CONFIG_INVALID', `cannot read ${file}: ${systemCode(error) || 'failed'}`, {
      cause: error,
    });
  }
}
