/**
 * A site for a test: the box and the rest of the world as two network namespaces with a cable between them, and a name server
 * of the test's own. The world holds real addresses of the internet and of private networks, which no other host sees.
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { temporaryDirectory } from './daemon.ts';
import { run } from './island.ts';
import { Orders } from './orders.ts';

const SERVER = '192.168.77.1';
/** The box's own. */
export const BOX = '192.168.77.2';
export const BOX_PUBLIC = '93.184.216.35';
/** The world's. */
export const PUBLIC = '93.184.216.34';
export const PRIVATE = '10.9.8.7';
/** The world lets what is sent there vanish. */
export const ABYSS = '93.184.216.99';

export interface Site {
  /** Runs a command in the world. */
  readonly world: readonly string[];
  /** Runs a command on the box, with names from the hosts file, then from the name server. */
  readonly box: readonly string[];
  /** Name: the addresses of each look-up in turn; 'drop': no answer. Names that are not in it do not exist. */
  zone(zone: Zone): Promise<void>;
  /** Gives the box one more address of its own. */
  addOwn(address: string): void;
}
export type Zone = Readonly<Record<string, readonly (readonly string[])[] | 'drop'>>;

/** The site, or why there can be none here. Gone at the end of the file. `hosts`: lines of the box's hosts file. */
export function makeSite(hosts: readonly string[]): Site | string {
  const [box, world] = [`lineside-box-${process.pid}`, `lineside-world-${process.pid}`];
  setImmediate(() => after(() => [box, world].forEach((name) => void spawnSync('ip', ['netns', 'del', name]))));
  const failed = run([
    ['ip', 'netns', 'add', box],
    ['ip', 'netns', 'add', world],
    ['ip', '-n', box, 'link', 'add', 'eth0', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', world],
    ...[box, world].flatMap((name) => ['lo', 'eth0'].map((link) => ['ip', '-n', name, 'link', 'set', link, 'up'])),
    ['ip', '-n', box, 'addr', 'add', `${BOX}/24`, 'dev', 'eth0'],
    ['ip', '-n', box, 'addr', 'add', `${BOX_PUBLIC}/32`, 'dev', 'eth0'],
    ['ip', '-n', world, 'addr', 'add', `${SERVER}/24`, 'dev', 'eth0'],
    ...[PUBLIC, PRIVATE].map((address) => ['ip', '-n', world, 'addr', 'add', `${address}/32`, 'dev', 'lo']),
    ['ip', '-n', box, 'route', 'add', 'default', 'via', SERVER],
  ]);
  if (failed !== '') return failed;
  const inWorld = ['ip', 'netns', 'exec', world];
  const names = new Orders(inWorld, 'name_server.py', SERVER);
  return {
    world: inWorld,
    box: ['ip', 'netns', 'exec', box, ...withFiles(hosts)],
    async zone(zone) {
      await names.first();
      await names.order({ zone });
    },
    addOwn(address) {
      const wrong = run([['ip', '-n', box, 'addr', 'add', `${address}/32`, 'dev', 'eth0']]);
      if (wrong !== '') throw new Error(wrong);
    },
  };
}

/** `ip netns exec` has given the command mounts of its own. */
function withFiles(hosts: readonly string[]): readonly string[] {
  const files = {
    'resolv.conf': [`nameserver ${SERVER}`, 'options timeout:5 attempts:1'],
    hosts,
    'nsswitch.conf': ['hosts: files dns'],
  };
  const dir = temporaryDirectory();
  for (const [name, lines] of Object.entries(files)) writeFileSync(join(dir, name), [...lines, ''].join('\n'));
  const mounts = Object.keys(files).map((name) => `mount --bind "$0/${name}" /etc/${name}`);
  return ['sh', '-c', [...mounts, 'exec "$@"'].join(' && '), dir];
}
