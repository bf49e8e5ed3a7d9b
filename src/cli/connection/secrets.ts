/** The files behind a connection: certificates, and the token, which is never on a command line. */
import { createHash, timingSafeEqual, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { DetailedPeerCertificate } from 'node:tls';
import { CliFailure } from '../failure.ts';
import { fileFailure } from '../input.ts';
import { connectOnce, type Target, unreachableBy } from './diagnose.ts';
import {
  type ConnectionOptions,
  chosenEndpoint,
  type Endpoint,
  type Env,
  type Face,
  fingerprintText,
  sourceOf,
  type TlsMaterial,
} from './endpoint.ts';
import { findProfile } from './profiles.ts';

/** A service, and what its callers need. */
export interface Place extends Target {
  readonly token: string | undefined;
}

/** `localSocket`: the Unix socket of the service that the configuration describes. */
export async function findPlace(options: ConnectionOptions, env: Env, face: Face, localSocket: () => string) {
  const source = sourceOf(options, env, face, (name) => findProfile(env, name));
  const endpoint = chosenEndpoint(options, source, face) ?? { kind: 'unix' as const, path: localSocket() };
  if (endpoint.kind === 'unix') return { endpoint, face, tls: undefined, token: undefined };
  const token = endpoint.tokenFile === undefined ? undefined : await readToken(endpoint.tokenFile);
  return { endpoint, face, tls: await tlsMaterial(endpoint, face), token };
}

export type TcpEndpoint = Extract<Endpoint, { kind: 'tcp' }>;

export async function tlsMaterial(endpoint: TcpEndpoint, face: Face): Promise<TlsMaterial | undefined> {
  if (endpoint.tls === undefined) return undefined;
  const { ca, cert, key, serverName, fingerprint } = endpoint.tls;
  const read = (path: string | undefined) => (path === undefined ? undefined : readNamed(path));
  const own = { cert: await read(cert), key: await read(key), serverName };
  if (fingerprint === undefined) return { ...own, ca: await read(ca), isPinned: false };
  return { ...own, ca: await pinnedAuthority(endpoint, fingerprint, face), isPinned: true };
}

async function readToken(path: string): Promise<string> {
  const token = (await readNamed(path)).toString('utf8').trim();
  // RFC 6750's token68: anything else cannot be what `lineside token add` printed, and must not reach a header.
  if (/^[A-Za-z0-9._~+/=-]+$/.test(token)) return token;
  const why = token === '' ? 'it is empty' : 'it does not hold one token and nothing else';
  const next = 'Put into it the last line that `lineside token add` printed.';
  throw new CliFailure('refused', 'BAD_TOKEN_FILE', why, { what: `cannot use ${path}`, next });
}

async function readNamed(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    throw fileFailure('read', path, error);
  }
}

// The authority of a box by its fingerprint: the certificate is taken from the chain that the service presents, and trusted
// only when its SHA-256 is the one that an operator compared. Addresses of boxes change; their authority does not.

/** As the HTTP commands give a connection and its handshake. */
export const connectMs = 10_000;
/** Server, authority, and a few between them: more is no chain of a box. */
const maxChain = 8;

/** The authority's certificate in PEM. `wanted`: 64 lower-case digits. Nothing but a TLS handshake is sent. */
async function pinnedAuthority(endpoint: TcpEndpoint, wanted: string, face: Face): Promise<Buffer> {
  const found = authorityOf(await presentedChain(endpoint, face));
  const what = `cannot trust the service at ${endpoint.host}`;
  if (found === undefined) {
    const why = 'it presents no certificate of an authority that a fingerprint could be of';
    const next = 'Its tls.cert_file must hold the certificate and, behind it, that of the authority.';
    throw new CliFailure('unreachable', 'NO_AUTHORITY', why, { what, next });
  }
  const digest = createHash('sha256').update(found.raw).digest();
  if (!timingSafeEqual(digest, Buffer.from(wanted, 'hex'))) {
    const why = `the fingerprint of its authority is ${fingerprintText(digest.toString('hex'))}, not ${fingerprintText(wanted)}`;
    const next =
      'Nothing was sent. Compare with what the box itself shows: it is another box, or another machine is between.';
    throw new CliFailure('unreachable', 'WRONG_FINGERPRINT', why, { what, next });
  }
  return Buffer.from(found.toString());
}

/** The certificates that the service presents, its own first; none of them is trusted yet. */
async function presentedChain(endpoint: TcpEndpoint, face: Face): Promise<readonly Buffer[]> {
  try {
    // Judged by the fingerprint, once it is there.
    const options = { ALPNProtocols: [face.alpn], rejectUnauthorized: false };
    return await connectOnce(endpoint, options, connectMs, (socket) => linked(socket.getPeerCertificate(true)));
  } catch (error) {
    throw unreachableBy({ endpoint, face, tls: undefined }, error);
  }
}

function linked(leaf: DetailedPeerCertificate): readonly Buffer[] {
  const chain: Buffer[] = [];
  let at: DetailedPeerCertificate | undefined = leaf;
  while (at?.raw !== undefined && chain.length < maxChain) {
    chain.push(at.raw);
    // The last one is its own issuer.
    at = at.issuerCertificate === at ? undefined : at.issuerCertificate;
  }
  return chain;
}

/** The end of the chain, if that is an authority's own certificate: self-signed. */
function authorityOf(chain: readonly Buffer[]): X509Certificate | undefined {
  const last = chain.at(-1);
  if (last === undefined) return undefined;
  const certificate = new X509Certificate(last);
  return certificate.checkIssued(certificate) && certificate.verify(certificate.publicKey) ? certificate : undefined;
}
