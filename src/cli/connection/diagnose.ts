/** Why a service cannot be reached: tries the connection once more by hand, where errors have codes instead of prose. */
import { connect as connectTcp } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import { CliFailure, exitStatus } from '../failure.ts';
import { safeText } from '../output/hex.ts';
import type { TlsMaterial } from './endpoint.ts';
import { type Endpoint, endpointText, type Face } from './endpoint.ts';

/** A machine on the same network answers in far less; one that does not is not there. */
const tryForMs = 3000;

/** The error of one attempt to connect, or undefined when it stood. */
function attempt(endpoint: Endpoint, material: TlsMaterial | undefined, face: Face): Promise<unknown> {
  return new Promise((resolve) => {
    const socket = openSocket(endpoint, material, face);
    const done = (error: unknown): void => {
      socket.destroy();
      resolve(error);
    };
    socket.setTimeout(tryForMs, () => done(Object.assign(new Error('no answer'), { code: 'ETIMEDOUT' })));
    socket.once(material === undefined ? 'connect' : 'secureConnect', () => done(undefined));
    socket.once('error', done);
  });
}

function openSocket(endpoint: Endpoint, material: TlsMaterial | undefined, face: Face) {
  if (endpoint.kind === 'unix') return connectTcp({ path: endpoint.path });
  const { host, port } = endpoint;
  if (material === undefined) return connectTcp({ host, port });
  const name = material.serverName ?? host;
  const servername = /^[\d.]+$|:/.test(name) ? undefined : name;
  return connectTls({
    host,
    port,
    ALPNProtocols: [face.alpn],
    ...(servername === undefined ? {} : { servername }),
    ...(material.ca === undefined ? {} : { ca: material.ca }),
    ...(material.cert === undefined ? {} : { cert: material.cert }),
    ...(material.key === undefined ? {} : { key: material.key }),
    ...(material.isPinned ? { checkServerIdentity: () => undefined } : {}),
  });
}

type Advice = readonly [why: string, next: string];

function running(endpoint: Endpoint, face: Face): string {
  const where = endpoint.kind === 'unix' ? 'See' : `On ${endpoint.host}`;
  return `Is the service running? ${where}: systemctl status ${face.unit}.`;
}

function adviceFor(code: string, endpoint: Endpoint, face: Face): Advice | undefined {
  const isRunning = running(endpoint, face);
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
export async function unreachable(
  endpoint: Endpoint,
  material: TlsMaterial | undefined,
  saidWhy: string,
  face: Face,
): Promise<CliFailure> {
  const error = await attempt(endpoint, material, face);
  if (error === undefined) {
    const what = cannotReach(endpoint);
    // What the gRPC library says of its own attempts is for its developers.
    const isForeign = saidWhy.includes('Protocol error');
    const why = isForeign ? 'it answers, but not in gRPC' : safeText(saidWhy.replace(/ Resolution note:.*$/s, ''));
    const next = isForeign
      ? 'Check --socket, or --host and its port: the line speaks gRPC, the hub HTTP. If it wants TLS: --tls.'
      : 'Try again: the service may be starting or stopping. On a plaintext connection it may want --tls.';
    return new CliFailure({ status: exitStatus.unreachable, code: 'UNAVAILABLE', what, why, next });
  }
  return unreachableBy(endpoint, error, face, material?.isPinned);
}

function cannotReach(endpoint: Endpoint): string {
  return `cannot reach the service at ${endpointText(endpoint)}`;
}

/** The failure of a connection that ended with `error`. */
export function unreachableBy(endpoint: Endpoint, error: unknown, face: Face, isPinned = false): CliFailure {
  const what = cannotReach(endpoint);
  const status = exitStatus.unreachable;
  const code = systemCode(error);
  if (untrusted.has(code)) {
    const next = isPinned
      ? 'It is not of the authority whose fingerprint was given: compare with what the box itself shows.'
      : 'Name the certificate of the authority that signed it: --ca FILE, or LINESIDE_CA; or its --fingerprint.';
    return new CliFailure({ status, code, what, why: 'its certificate is not trusted here', next, cause: error });
  }
  const [why, next] = adviceFor(code, endpoint, face) ?? [safeText(messageOf(error)), running(endpoint, face)];
  return new CliFailure({ status, code: code === '' ? 'UNAVAILABLE' : code, what, why, next, cause: error });
}
