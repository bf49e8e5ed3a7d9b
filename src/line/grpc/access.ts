/** Who may call what: the role that each method needs, and the roles of the caller by token or client certificate. Pure. */

import type { TokenReader } from '../../shared/auth/token-reader.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import type { Config } from '../../shared/config/config.ts';
import type { Connection } from './connection.ts';

type GrpcRole = 'viewer' | 'operator' | 'admin';

/** What looks but does not touch. Everything else needs operator, methods not thought of included. */
const viewerMethods: ReadonlySet<string> = new Set([
  '/serial.SerialService/ListDevices',
  '/serial.SerialService/GetCurrentConfig',
  '/serial.SerialService/StreamLog',
  '/lineside.v1.LineService/GetStatus',
  '/lineside.v1.LineService/ReadLog',
  '/lineside.v1.LineService/GetModemLines',
  '/lineside.v1.LineService/ListEvents',
  '/lineside.v1.LineService/SearchLog',
  '/lineside.v1.LineService/GetLogHistogram',
  '/grpc.health.v1.Health/Check',
  '/grpc.health.v1.Health/Watch',
  '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
  '/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo',
]);

/** Taking the line away from who holds it. */
const adminMethod = '/lineside.v1.LineService/ReleaseHold';

export function roleNeeded(path: string): GrpcRole {
  if (path === adminMethod) return 'admin';
  return viewerMethods.has(path) ? 'viewer' : 'operator';
}

/** Operator includes viewer; roles of the reference-data interface mean nothing here, but admin for its one method. */
export function mayCall(roles: readonly string[], path: string): boolean {
  const needed = roleNeeded(path);
  return roles.includes(needed) || (needed === 'viewer' && roles.includes('operator'));
}

export type CertificateRoles = Pick<Config['auth'], 'operatorCerts' | 'viewerCerts'>;

/** The role of a client certificate by its common name. */
export function certificateRoles(name: string, { operatorCerts, viewerCerts }: CertificateRoles): GrpcRole[] {
  if (operatorCerts.includes(name) || operatorCerts.includes('*')) return ['operator'];
  if (viewerCerts.includes(name) || viewerCerts.includes('*')) return ['viewer'];
  return [];
}

/** Answers the name of the token or the certificate. Rejects with UNAUTHENTICATED or PERMISSION_DENIED. */
export type Authenticator = (path: string, authorization: readonly string[], connection: Connection) => Promise<string>;

/** `certificates` is asked for each call: it may be changed. */
export function authenticatorBy(tokens: TokenReader, certificates: () => CertificateRoles): Authenticator {
  return async (path, authorization, connection) => {
    const isToken = authorization.length > 0;
    const { name, roles } = isToken ? await tokens.authenticate(authorization) : certified(connection, certificates());
    if (mayCall(roles, path)) return name;
    const who = `${isToken ? 'token' : 'certificate'} "${name}"`;
    throw new LinesideError('PERMISSION_DENIED', `${who} has not the role ${roleNeeded(path)} that this needs`);
  };
}

function certified(connection: Connection, known: CertificateRoles) {
  const name = certificateOf(connection);
  return { name, roles: certificateRoles(name, known) };
}

function certificateOf({ certificate, certificateFault }: Connection): string {
  if (certificate !== undefined) return certificate;
  if (certificateFault !== undefined) {
    throw new LinesideError('UNAUTHENTICATED', `the client certificate is not accepted: ${certificateFault}`);
  }
  throw new LinesideError('UNAUTHENTICATED', 'this address asks for credentials', {
    hint: 'send "authorization: Bearer TOKEN" metadata, or use a client certificate',
  });
}
