/** Where things are on a box; all below `root`, which is "/" but in tests and where an image is being made. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemCode } from '../shared/base/errors.ts';
import { objectIn } from '../shared/base/json.ts';

export const etc = {
  config: '/etc/lineside/lineside.toml',
  tokens: '/etc/lineside/tokens.json',
  identity: '/etc/lineside/identity.json',
  caCert: '/etc/lineside/tls/ca.crt',
  serverCert: '/etc/lineside/tls/server.crt',
  caKey: '/etc/lineside/ca/ca.key',
  lineSecrets: '/etc/lineside/secrets/line',
  hubSecrets: '/etc/lineside/secrets/hub',
  /** What the set-up keeps for itself: root's alone. */
  setup: '/etc/lineside/setup',
  hostname: '/etc/hostname',
  machineId: '/etc/machine-id',
  network: '/etc/systemd/network',
  wpa: '/etc/wpa_supplicant/wpa_supplicant-wlan0.conf',
  authorizedKeys: '/etc/ssh/lineside/authorized_keys',
  timeServers: '/etc/systemd/timesyncd.conf.d/10-lineside.conf',
  groups: '/etc/group',
  /** Where Avahi looks for what to announce. */
  announcements: '/etc/avahi/services',
} as const;

/** The group of those who may use the service's sockets and read its configuration. */
export const SERVICE_GROUP = 'lineside';

/** A box's files, read; changes go through a transaction. */
export class Box {
  readonly root: string;

  constructor(root: string) {
    this.root = root;
  }

  path(place: string): string {
    return join(this.root, place);
  }

  has(place: string): boolean {
    return existsSync(this.path(place));
  }

  /** undefined: there is no such file. Any other failure to read is one: what cannot be read is not missing. */
  read(place: string): Buffer | undefined {
    try {
      return readFileSync(this.path(place));
    } catch (error) {
      if (systemCode(error) === 'ENOENT' || systemCode(error) === 'ENOTDIR') return undefined;
      throw error;
    }
  }

  text(place: string): string | undefined {
    return this.read(place)?.toString('utf8');
  }

  /** undefined also if a damaged file system left one that cannot be read; the parser's message would show its content. */
  object(place: string): object | undefined {
    try {
      return objectIn(this.text(place) ?? '');
    } catch {
      return undefined;
    }
  }

  /** The number of a group; undefined where there is no such group. */
  group(name: string): number | undefined {
    const line = this.text(etc.groups)
      ?.split('\n')
      .find((one) => one.startsWith(`${name}:`));
    const id = line?.split(':')[2];
    return id === undefined || id === '' ? undefined : Number(id);
  }
}
