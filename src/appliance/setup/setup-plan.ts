/** Turns a checked set-up into file changes for this box, and finds the faults that depend on the box. Writes nothing. */

import { pbkdf2Sync } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { StoredToken } from '../../shared/auth/tokens.ts';
import type { Config } from '../../shared/config/config.ts';
import { isCredential } from '../../shared/config/credential.ts';
import { exposureFaults } from '../../shared/config/exposure.ts';
import type { ListenAddress } from '../../shared/config/listen.ts';
import { parseConfig } from '../../shared/config/parse.ts';
import { filesOfHub, filesOfTls } from '../../shared/config/start-checks.ts';
import type { Fault } from '../../shared/config/values.ts';
import { type Box, etc } from '../box.ts';
import { namesIn } from '../disk.ts';
import { type Change, closed, open } from '../transaction.ts';
import { networkFiles, storedPsk, timeServersFile, wpaFile } from './network-files.ts';
import type { Setup, Wifi } from './setup-file.ts';
import { TAKEN } from './setup-keys.ts';

export interface Plan {
  readonly changes: readonly Change[];
  readonly faults: readonly Fault[];
  /** Names of the hub's secrets as they will be. */
  readonly secrets: ReadonlySet<string>;
}

const GONE = 'was moved onto a box, and this box does not have it: write it again';

export function planSetup(box: Box, setup: Setup): Plan {
  const faults: Fault[] = [];
  const wifi = withKey(box, setup.network.wifi, faults);
  const secrets = planSecrets(box, setup.secrets, faults);
  const { wired, wireless } = networkFiles(setup.network);
  const changes = [
    open(join(etc.network, '10-lineside.network'), wired),
    open(join(etc.network, '10-lineside-wifi.network'), wireless),
    { place: etc.wpa, content: wifi === undefined ? undefined : wpaFile(wifi), mode: 0o600 },
    open(etc.timeServers, timeServersFile(setup.timeServers)),
    open(
      etc.authorizedKeys,
      setup.sshKeys.length === 0 ? undefined : `${setup.sshKeys.map((key) => key.trim()).join('\n')}\n`,
    ),
    ...secrets.changes,
  ];
  if (setup.hostname !== '') changes.push(open(etc.hostname, `${setup.hostname}\n`));
  return { changes, faults, secrets: secrets.names };
}

/** Its password turned into the key that is made of it, or that of the box where the card no longer has it. */
function withKey(box: Box, wifi: Wifi | undefined, faults: Fault[]): Wifi | undefined {
  if (wifi === undefined || wifi.psk === '') return wifi;
  if (wifi.psk !== TAKEN) return { ...wifi, psk: wirelessKey(wifi.psk, wifi.ssid) };
  const psk = storedPsk(box.text(etc.wpa), wifi.ssid);
  if (psk === undefined)
    faults.push({ path: 'network.wifi.psk', message: `${GONE} (for the network ${JSON.stringify(wifi.ssid)})` });
  return { ...wifi, psk: psk ?? '' };
}

/**
 * IEEE 802.11, J.4: what WPA2 makes of a password. Kept in its place, since wpa_supplicant cannot read every password from
 * its file (it ends at a quote), and people use one password in several places.
 */
export function wirelessKey(password: string, ssid: string): string {
  if (/^[0-9A-Fa-f]{64}$/.test(password)) return password.toLowerCase();
  return pbkdf2Sync(password, ssid, 4_096, 32, 'sha1').toString('hex');
}

function planSecrets(box: Box, wanted: ReadonlyMap<string, string>, faults: Fault[]) {
  const names = storedSecrets(box);
  const changes: Change[] = [];
  for (const [name, value] of wanted) {
    if (value === TAKEN) {
      if (!names.has(name)) faults.push({ path: `secrets.${name}`, message: GONE });
      continue;
    }
    changes.push(closed(join(etc.hubSecrets, name), value === '' ? undefined : value));
    if (value === '') names.delete(name);
    else names.add(name);
  }
  return { changes, names };
}

export function storedSecrets(box: Box): Set<string> {
  return new Set(namesIn(box.path(etc.hubSecrets)).filter((name) => !name.startsWith('.')));
}

// The boot partition's lineside.toml, checked as `lineside config check` does, for the box as it will be: with the tokens and
// secrets of the same set-up, and with the network's sockets, which systemd opens if there is a certificate.

interface Surroundings {
  readonly tokens: readonly StoredToken[];
  readonly secrets: ReadonlySet<string>;
}

/** What systemd listens on for the box (lineside-lan.socket): any such address. */
const LAN: ListenAddress = { kind: 'tcp', host: '0.0.0.0', port: 50_051, loopback: false };

export function judgeConfig(box: Box, table: Readonly<Record<string, unknown>>, around: Surroundings): Fault[] {
  const { config, faults } = parseConfig(table, {});
  const files = [...filesOfTls(config), ...filesOfHub(config, config.webhooks.keyFile)];
  // So that the same fault is not reported three times.
  const certain = { ...config, tls: { ...config.tls, certFile: config.tls.certFile || etc.serverCert } };
  return [
    ...faults,
    ...files.flatMap(([path, file]) => fileFaults(box, path, file, around)),
    ...tokensFileFaults(config),
    ...certificateFaults(config),
    ...networkFaults(certain, around.tokens),
  ];
}

function certificateFaults({ tls, grpc, http }: Config): Fault[] {
  if (tls.certFile !== '' || (grpc.insecure && http.insecure)) return [];
  const wanted = `cert_file = "${etc.serverCert}" and key_file = "credential:tls.key"`;
  return [{ path: 'tls', message: `is missing: the box serves its network by ${wanted} below [tls]` }];
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
