/**
 * The boot partition's lineside.toml, judged as `lineside config check` judges it, for the box as it will be: with the
 * tokens and secrets of the same set-up, and with the network's sockets, which systemd opens where there is a certificate.
 */
import { existsSync } from 'node:fs';
import type { StoredToken } from '../../shared/auth/tokens.ts';
import type { Config } from '../../shared/config/config.ts';
import { isCredential } from '../../shared/config/credential.ts';
import { exposureFaults } from '../../shared/config/exposure.ts';
import type { ListenAddress } from '../../shared/config/listen.ts';
import { parseConfig } from '../../shared/config/parse.ts';
import type { Fault } from '../../shared/config/values.ts';
import { type Box, etc } from '../box.ts';

export interface Surroundings {
  readonly tokens: readonly StoredToken[];
  /** Names of the hub's secrets. */
  readonly secrets: ReadonlySet<string>;
}

/** What systemd listens on for the box (lineside-lan.socket): any such address. */
const LAN: ListenAddress = { kind: 'tcp', host: '0.0.0.0', port: 50_051, loopback: false };

export function judgeConfig(box: Box, table: Readonly<Record<string, unknown>>, around: Surroundings): Fault[] {
  const { config, faults } = parseConfig(table, {});
  const { tls, kafka, webhooks } = config;
  const files: [string, string][] = [
    ['tls.cert_file', tls.certFile],
    ['tls.key_file', tls.keyFile],
    ['tls.client_ca_file', tls.clientCaFile],
    ['kafka.ca_file', kafka.caFile],
    ['kafka.password_file', kafka.passwordFile],
    ['webhooks.ca_file', webhooks.caFile],
  ];
  return [
    ...faults,
    ...files.flatMap(([path, file]) => fileFaults(box, path, file, around)),
    ...tokensFileFaults(config),
    ...certificateFaults(config),
    ...networkFaults(config.tls.certFile === '' ? withCertificate(config) : config, around.tokens),
  ];
}

function certificateFaults({ tls, grpc, http }: Config): Fault[] {
  if (tls.certFile !== '' || (grpc.insecure && http.insecure)) return [];
  const wanted = `cert_file = "${etc.serverCert}" and key_file = "credential:tls.key"`;
  return [{ path: 'tls', message: `is missing: the box serves its network by ${wanted} below [tls]` }];
}

/** So that the same fault is not reported three times. */
function withCertificate(config: Config): Config {
  return { ...config, tls: { ...config.tls, certFile: etc.serverCert } };
}

function fileFaults(box: Box, path: string, file: string, { secrets }: Surroundings): Fault[] {
  if (file === '') return [];
  if (isCredential(file)) {
    const name = file.slice(file.indexOf(':') + 1);
    if (name === 'tls.key' || secrets.has(name)) return [];
    return [{ path, message: `the box has no secret "${name}": give it one below [secrets] in setup.toml` }];
  }
  // Made with the identity, which is put in place together with this.
  const own: readonly string[] = [etc.serverCert, etc.caCert];
  return own.includes(file) || existsSync(box.path(file))
    ? []
    : [{ path, message: `there is no file ${file} on the box` }];
}

function tokensFileFaults({ auth }: Config): Fault[] {
  if (auth.tokensFile === etc.tokens) return [];
  return [{ path: 'auth.tokens_file', message: `the box keeps its tokens in ${etc.tokens}: remove the key` }];
}

/** Both processes refuse to start on the network without a certificate, or when no caller may use them. */
export function networkFaults(config: Config, tokens: readonly StoredToken[]): Fault[] {
  const { grpc, http } = config;
  const onNetwork = { ...config, grpc: { ...grpc, listen: [LAN] }, http: { ...http, listen: [LAN] } };
  return exposureFaults(onNetwork, tokens);
}
