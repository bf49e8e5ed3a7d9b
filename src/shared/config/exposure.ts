/** Whether the service may start on addresses that other machines can reach. Pure. */
import type { Role, StoredToken } from '../auth/tokens.ts';
import type { Config } from './config.ts';
import { isOwnMachine, type ListenAddress, showListen } from './listen.ts';
import type { Fault } from './values.ts';

type Face = 'grpc' | 'http';

const lineRoles: readonly Role[] = ['viewer', 'operator'];
/** Roles that admit a caller. The refdata-* roles only add scopes to another role of `http`. */
const admitted: Record<Face, readonly Role[]> = { grpc: lineRoles, http: ['reader', 'writer', 'admin', ...lineRoles] };

/**
 * Without a credential no caller could use an address of the configuration: a fault. A socket of systemd is served all the
 * same and refuses every caller: a box whose last token was revoked continues to log.
 */
export function exposureFaults(
  config: Config,
  tokens: readonly StoredToken[],
  faces: readonly Face[] = ['grpc', 'http'],
): Fault[] {
  return faces.flatMap((face) => {
    const { listen, insecure } = config[face];
    const where = exposed(listen).map(showListen).join(', ');
    if (where === '' || insecure) return [];
    const isOwn = exposed(listen).some(({ fd }) => fd === undefined);
    const hasCaller =
      tokens.some(({ roles }) => roles.some((role) => admitted[face].includes(role))) ||
      (face === 'grpc' && hasCertificateNames(config));
    return [
      ...(config.tls.certFile === '' ? ['TLS: set tls.cert_file and tls.key_file'] : []),
      ...(isOwn && !hasCaller ? [`credentials: ${remedies[face]}`] : []),
    ].map((needed) => ({
      path: `${face}.listen`,
      message: `${where} can be reached from other machines and needs ${needed} (or, in the file, ${face}.insecure = true)`,
    }));
  });
}

const remedies: Record<Face, string> = {
  grpc: 'add a token ("lineside token add NAME --role operator") or set tls.client_ca_file and auth.operator_certs',
  http: 'add a token ("lineside token add NAME --role reader")',
};

/** Certificates are credentials of gRPC alone, and only if at least one name has a role. */
function hasCertificateNames({ tls, auth }: Config): boolean {
  return tls.clientCaFile !== '' && auth.operatorCerts.length + auth.viewerCerts.length > 0;
}

export function isExposed(listen: readonly ListenAddress[]): boolean {
  return exposed(listen).length > 0;
}

function exposed(listen: readonly ListenAddress[]): readonly ListenAddress[] {
  return listen.filter((address) => !isOwnMachine(address));
}
