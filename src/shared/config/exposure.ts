/** Whether the service may start on addresses that others than this machine reach. Pure. */
import type { Config, ListenAddress } from './config.ts';
import { showListen } from './listen.ts';
import type { Fault } from './settings.ts';

/**
 * Without a single token no caller could come in: for an address of the configuration that is a fault. A socket of systemd's
 * is served all the same and turns everybody away: a box whose last token was revoked goes on logging.
 *
 * `tokens`: how many stored tokens have a role of the gRPC interface. A certificate authority counts as credentials
 * where at least one certificate name has a role.
 */
export function exposureFaults(config: Config, tokens: number): Fault[] {
  const where = exposed(config.grpc.listen);
  if (where === '' || config.grpc.insecure) return [];
  const faults: Fault[] = [];
  if (config.tls.certFile === '') faults.push(needsTls('grpc', where));
  const certificates = config.auth.operatorCerts.length + config.auth.viewerCerts.length;
  if (tokens === 0 && isConfigured(config.grpc.listen) && (config.tls.clientCaFile === '' || certificates === 0)) {
    faults.push({
      path: 'grpc.listen',
      message: `${where} can be reached from other machines and needs credentials: add a token ("lineside token add NAME --role operator") or set tls.client_ca_file and auth.operator_certs (or, in the file, grpc.insecure = true)`,
    });
  }
  return faults;
}

/** `tokens`: how many stored tokens have a role of the reference-data interface. Certificates count for nothing there. */
export function httpExposureFaults(config: Config, tokens: number): Fault[] {
  const where = exposed(config.http.listen);
  if (where === '' || config.http.insecure) return [];
  const faults: Fault[] = [];
  if (config.tls.certFile === '') faults.push(needsTls('http', where));
  if (tokens === 0 && isConfigured(config.http.listen)) {
    faults.push({
      path: 'http.listen',
      message: `${where} can be reached from other machines and needs credentials: add a token ("lineside token add NAME --role reader") (or, in the file, http.insecure = true)`,
    });
  }
  return faults;
}

/** Whether others than this machine reach one of them. */
export function isExposed(listen: readonly ListenAddress[]): boolean {
  return exposed(listen) !== '';
}

/** Whether the configuration, and not systemd, names one that others reach. */
function isConfigured(listen: readonly ListenAddress[]): boolean {
  return isExposed(listen.filter(({ fd }) => fd === undefined));
}

/** '' where there is no such address. */
function exposed(listen: readonly ListenAddress[]): string {
  return listen
    .filter((address) => address.kind === 'tcp' && !address.loopback)
    .map(showListen)
    .join(', ');
}

function needsTls(section: 'grpc' | 'http', where: string): Fault {
  return {
    path: `${section}.listen`,
    message: `${where} can be reached from other machines and needs TLS: set tls.cert_file and tls.key_file (or, in the file, ${section}.insecure = true)`,
  };
}
