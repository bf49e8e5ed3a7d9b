/** Why a service cannot be reached: tries the connection once more by hand, where errors have codes instead of prose. */
import { connect as connectTcp, isIP, type Socket } from 'node:net';
import { type ConnectionOptions, connect as connectTls, type TLSSocket } from 'node:tls';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import { CliFailure } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import { type Endpoint, endpointText, type Face, type TlsMaterial } from './endpoint.ts';

/** A service to connect to. */
export interface Target {
  readonly endpoint: Endpoint;
  readonly face: Face;
  /** undefined: plaintext. */
  readonly tls: TlsMaterial | undefined;
}

/** A machine on the same network answers in far less; one that does not is not there. */
const tryForMs = 3000;

export function tlsOptions({ ca, cert, key, serverName, isPinned }: TlsMaterial, { alpn }: Face): ConnectionOptions {
  return {
    ALPNProtocols: [alpn],
    ca,
    cert,
    key,
    ...(serverName === undefined ? {} : { servername: serverName }),
    ...(isPinned ? { checkServerIdentity: () => undefined } : {}),
  };
}

/** What `read` makes of one connection; rejects with the error of the attempt. `tls` undefined: plaintext, a mere Socket. */
export function connectOnce<T>(
  endpoint: Endpoint,
  tls: ConnectionOptions | undefined,
  limitMs: number,
  read: (socket: TLSSocket) => T,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const socket = openSocket(endpoint, tls) as TLSSocket;
    const failed = (error: unknown): void => {
      socket.destroy();
      reject(error);
    };
    socket.setTimeout(limitMs, () => failed(Object.assign(new Error('no answer'), { code: 'ETIMEDOUT' })));
    socket.once('error', failed);
    socket.once(tls === undefined ? 'connect' : 'secureConnect', () => {
      resolve(read(socket));
      socket.destroy();
    });
  });
}

function openSocket(endpoint: Endpoint, tls: ConnectionOptions | undefined): Socket {
  if (endpoint.kind === 'unix') return connectTcp({ path: endpoint.path });
  const { host, port } = endpoint;
  if (tls === undefined) return connectTcp({ host, port });
  return connectTls({ host, port, ...(isIP(host) === 0 ? { servername: host } : {}), ...tls });
}

type Advice = readonly [why: string, next: string];

function running(endpoint: Endpoint, face: Face): string {
  const where = endpoint.kind === 'unix' ? 'See' : `On ${endpoint.host}`;
  return `Is the service running? ${where}: systemctl status ${face.unit}.`;
}

function adviceFor(code: string, isRunning: string): Advice | undefined {
  if (code === 'ENOENT') {
    return ['there is no such socket', `${isRunning} Another place: --socket PATH; another machine: --host HOST.`];
  }
  return code === 'ECONNREFUSED' ? ['connection refused', isRunning] : adviceByCode[code];
}

const adviceByCode: Readonly<Record<string, Advice>> = {
  EACCES: ['permission denied on the socket', 'Use sudo, or join the group that owns the socket and log in again.'],
  ENOTFOUND: ['no such host name', 'Check the name, or use the address.'],
  EAI_AGAIN: ['the name cannot be resolved now', 'Check the network, or use the address.'],
  ETIMEDOUT: ['no answer', 'Check address, cable and firewall.'],
  EHOSTUNREACH: ['no route to the host', 'Check address and network.'],
  ENETUNREACH: ['no route to the network', 'Check address and network.'],
  CERT_HAS_EXPIRED: ['its certificate has expired', 'Check the clocks of both machines; renew the certificate.'],
  CERT_NOT_YET_VALID: ['its certificate is not valid yet', 'Check the clocks of both machines.'],
  ERR_TLS_CERT_ALTNAME_INVALID: ['its certificate is for another name', 'Give the name it is for: --server-name NAME.'],
  ERR_SSL_WRONG_VERSION_NUMBER: [
    'it does not speak TLS on this port',
    'Check the port, or give --plaintext if that is meant.',
  ],
  ECONNRESET: [
    'it broke the connection off',
    'Check the port, and whether it wants TLS (--tls) or a client certificate (--cert, --key).',
  ],
};
const untrusted = new Set([
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
]);

/** `saidWhy` is what the failed call said: the answer when the connection stands after all. */
export async function unreachable(target: Target, saidWhy: string): Promise<CliFailure> {
  const { endpoint, face, tls } = target;
  const options = tls === undefined ? undefined : tlsOptions(tls, face);
  try {
    await connectOnce(endpoint, options, tryForMs, () => undefined);
  } catch (error) {
    return unreachableBy(target, error);
  }
  // The gRPC library's report about its own attempts is for its developers.
  const isForeign = saidWhy.includes('Protocol error');
  const why = isForeign ? 'it answers, but not in gRPC' : safeText(saidWhy.replace(/ Resolution note:.*$/s, ''));
  const next = isForeign
    ? 'Check --socket, or --host and its port: the line speaks gRPC, the hub HTTP. If it wants TLS: --tls.'
    : 'Try again: the service may be starting or stopping. On a plaintext connection it may want --tls.';
  return new CliFailure('unreachable', 'UNAVAILABLE', why, { what: cannotReach(endpoint), next });
}

function cannotReach(endpoint: Endpoint): string {
  return `cannot reach the service at ${endpointText(endpoint)}`;
}

/** The failure of a connection that ended with `error`. */
export function unreachableBy({ endpoint, face, tls }: Target, error: unknown): CliFailure {
  const code = systemCode(error);
  const isRunning = running(endpoint, face);
  const untrustedNext =
    tls?.isPinned === true
      ? 'It is not of the authority whose fingerprint was given: compare with what the box itself shows.'
      : 'Name the certificate of the authority that signed it: --ca FILE, or LINESIDE_CA; or its --fingerprint.';
  const [why, next] = untrusted.has(code)
    ? ['its certificate is not trusted here', untrustedNext]
    : (adviceFor(code, isRunning) ?? [safeText(messageOf(error)), isRunning]);
  return new CliFailure('unreachable', code || 'UNAVAILABLE', why, { what: cannotReach(endpoint), next, cause: error });
}
