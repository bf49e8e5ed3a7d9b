/** Who may call what: the role that each method needs, and the roles of the caller. Pure. */

export type GrpcRole = 'viewer' | 'operator';

/** What looks but does not touch. Everything else needs operator, methods not thought of included. */
const viewerMethods: ReadonlySet<string> = new Set([
  '/serial.SerialService/ListDevices',
  '/serial.SerialService/GetCurrentConfig',
  '/serial.SerialService/StreamLog',
  '/lineside.v1.LineService/GetStatus',
  '/lineside.v1.LineService/ReadLog',
  '/lineside.v1.LineService/GetModemLines',
  '/grpc.health.v1.Health/Check',
  '/grpc.health.v1.Health/Watch',
  '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
  '/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo',
]);

export function roleNeeded(path: string): GrpcRole {
  return viewerMethods.has(path) ? 'viewer' : 'operator';
}

/** Operator includes viewer; roles of the reference-data interface (admin too) mean nothing here. */
export function mayCall(roles: readonly string[], path: string): boolean {
  return roles.includes('operator') || (roleNeeded(path) === 'viewer' && roles.includes('viewer'));
}

export interface CertificateRoles {
  readonly operatorCerts: readonly string[];
  readonly viewerCerts: readonly string[];
}

/** The role of a client certificate by its common name. */
export function certificateRoles(name: string, { operatorCerts, viewerCerts }: CertificateRoles): GrpcRole[] {
  if (operatorCerts.includes(name) || operatorCerts.includes('*')) return ['operator'];
  if (viewerCerts.includes(name) || viewerCerts.includes('*')) return ['viewer'];
  return [];
}
