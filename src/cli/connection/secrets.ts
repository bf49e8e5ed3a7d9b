/** The files behind a connection: certificates, and the token, which is never on a command line. */
import { readFile } from 'node:fs/promises';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import { CliFailure, exitStatus } from '../failure.ts';
import type { Endpoint, Face } from './endpoint.ts';
import type { TlsMaterial } from './tls-material.ts';

export interface Secrets {
  /** undefined: plaintext. */
  readonly tls: TlsMaterial | undefined;
  readonly token: string | undefined;
}

/** `face`: what is asked for its chain, where the authority is named by its fingerprint. */
export async function readSecrets(endpoint: Endpoint, face: Face): Promise<Secrets> {
  if (endpoint.kind === 'unix') return { tls: undefined, token: undefined };
  const token = endpoint.tokenFile === undefined ? undefined : await readToken(endpoint.tokenFile);
  if (endpoint.tls === undefined) return { tls: undefined, token };
  const { ca, cert, key, serverName, fingerprint } = endpoint.tls;
  const read = (path: string | undefined) => (path === undefined ? undefined : readNamed(path));
  const own = { cert: await read(cert), key: await read(key), serverName };
  if (fingerprint === undefined) return { tls: { ...own, ca: await read(ca), isPinned: false }, token };
  const { pinnedAuthority } = await import('./pin.ts');
  return { tls: { ...own, ca: await pinnedAuthority(endpoint, fingerprint, face), isPinned: true }, token };
}

async function readToken(path: string): Promise<string> {
  const token = (await readNamed(path)).toString('utf8').trim();
  // RFC 6750's token68: anything else cannot be what `lineside token add` printed, and must not reach a header.
  if (/^[A-Za-z0-9._~+/=-]+$/.test(token)) return token;
  throw new CliFailure({
    status: exitStatus.refused,
    code: 'BAD_TOKEN_FILE',
    what: `cannot use ${path}`,
    why: token === '' ? 'it is empty' : 'it does not hold one token and nothing else',
    next: 'Put into it the last line that `lineside token add` printed.',
  });
}

async function readNamed(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    throw fileFailure('read', path, error);
  }
}

export function fileFailure(verb: string, path: string, error: unknown): CliFailure {
  const code = systemCode(error);
  const plain: Readonly<Record<string, string>> = {
    ENOENT: 'there is no such file or directory',
    EACCES: 'permission denied',
    EISDIR: 'it is a directory',
    ENOSPC: 'no space left on the device',
    EROFS: 'the file system is read-only',
  };
  const why = plain[code] ?? messageOf(error);
  return new CliFailure({
    status: exitStatus.refused,
    code: code || 'FILE',
    what: `cannot ${verb} ${path}`,
    why,
    cause: error,
  });
}
