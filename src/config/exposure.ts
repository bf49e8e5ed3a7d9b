/** Whether the service may start on addresses that others than this machine reach. Pure. */
import type { Config } from './config.ts';
import { showListen } from './listen.ts';
import type { Fault } from './parse.ts';

/**
 * `tokens`: how many stored tokens have a role of the gRPC interface. A certificate authority counts as credentials
 * where at least one certificate name has a role.
 */
export function exposureFaults(config: Config, tokens: number): Fault[] {
  const exposed = config.grpc.listen.filter((address) => address.kind === 'tcp' && !address.loopback);
  if (exposed.length === 0 || config.grpc.insecure) return [];
  const where = exposed.map(showListen).join(', ');
  const faults: Fault[] = [];
  if (config.tls.certFile === '') {
    faults.push({
      path: 'grpc.listen',
      message: `${where} can be reached from other machines and needs TLS: set tls.cert_file and tls.key_file (or, in the file, grpc.insecure = true)`,
    });
  }
  const certificates = config.auth.operatorCerts.length + config.auth.viewerCerts.length;
  if (tokens === 0 && (config.tls.clientCaFile === '' || certificates === 0)) {
    faults.push({
      path: 'grpc.listen',
      message: `${where} can be reached from other machines and needs credentials: add a token ("lineside token add NAME --role operator") or set tls.client_ca_file and auth.operator_certs (or, in the file, grpc.insecure = true)`,
    });
  }
  return faults;
}
