/** One address to listen on: who is trusted there, and whether it speaks TLS. */
import type { Config, ListenAddress } from '../../config/config.ts';

/** True where whoever reaches the address is trusted: the file permissions, or the machine's own users. */
export function isTrusted(address: ListenAddress, config: Config): boolean {
  return address.kind === 'unix' || address.loopback || config.grpc.insecure;
}

/** TLS where it is configured and the address is reached from other machines; this machine's own need none. */
export function needsTls(address: ListenAddress, { tls }: Config): boolean {
  return address.kind === 'tcp' && !address.loopback && tls.certFile !== '';
}
