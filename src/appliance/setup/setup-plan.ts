/** A judged set-up and the box as it is, made into files; what does not fit the box is a fault. Nothing is written here. */
import { pbkdf2Sync } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { systemCode } from '../../shared/base/errors.ts';
import type { Fault } from '../../shared/config/values.ts';
import { type Box, etc } from '../box.ts';
import type { Change } from '../transaction.ts';
import { networkFiles, storedPsk, timeServersFile, wpaFile } from './network-files.ts';
import type { Setup, Wifi } from './setup-file.ts';
import { TAKEN } from './setup-keys.ts';
import { closed } from './setup-state.ts';

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
  const open = (place: string, content: string | undefined): Change => ({ place, content, mode: 0o644 });
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

function planSecrets(
  box: Box,
  wanted: ReadonlyMap<string, string>,
  faults: Fault[],
): { changes: Change[]; names: Set<string> } {
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
  try {
    return new Set(readdirSync(box.path(etc.hubSecrets)).filter((name) => !name.startsWith('.')));
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return new Set();
    throw error;
  }
}
