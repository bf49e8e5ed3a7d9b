/** A machine without any network, for a test: a network namespace with its loopback alone, and a cable that can be plugged in. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after } from 'node:test';

export interface Island {
  /** Runs a command on it. */
  readonly wrapper: readonly string[];
  /** The island's address on the cable, once it is plugged in. */
  readonly address: string;
  /** This machine's address on the cable; here as soon as the island is. */
  readonly mainland: string;
  /** Another one of this machine's. */
  readonly second: string;
  /** Of both ends. */
  readonly cidr: string;
  plug(): void;
  unplug(): void;
  /** Packets to this address are dropped, or arrive again. The cable is plugged in. */
  drop(address: string, drops: boolean): void;
  /** Bytes that came out of the island so far. */
  sentBytes(): number;
}

let islands = 0;

/** The island, or why there can be none here. Gone at the end of the file. */
export function makeIsland(): Island | string {
  islands += 1;
  const id = `${process.pid % 100_000}${String.fromCodePoint(96 + islands)}`;
  const [name, here, there] = [`lineside-island-${id}`, `li${id}m`, `li${id}i`];
  // 198.18.0.0/15 is for tests of network devices (RFC 2544): it has no owner.
  const net = `198.19.${(process.pid >> 4) & 255}.${((process.pid & 15) << 4) | ((islands & 1) << 3)}`;
  const host = (n: number): string => net.replace(/\d+$/, (last) => String(Number(last) + n));
  const inside = ['ip', 'netns', 'exec', name];
  const made = run([
    ['ip', 'netns', 'add', name],
    [...inside, 'ip', 'link', 'set', 'lo', 'up'],
    ['ip', 'link', 'add', here, 'type', 'veth', 'peer', 'name', there],
    ['ip', 'addr', 'add', `${host(1)}/29`, 'dev', here],
    ['ip', 'addr', 'add', `${host(4)}/29`, 'dev', here],
    ['ip', 'link', 'set', here, 'up'],
  ]);
  // After the hooks of the file itself.
  setImmediate(() =>
    after(() => {
      spawnSync('ip', ['netns', 'del', name]);
      spawnSync('ip', ['link', 'del', here]);
    }),
  );
  if (made !== '') return made;
  /** No host has this hardware address: packets to it are lost. */
  const lose = (address: string): string[] => [
    'ip',
    'neigh',
    'replace',
    address,
    'lladdr',
    '02:00:00:00:00:77',
    'nud',
    'permanent',
    'dev',
    there,
  ];
  return {
    wrapper: inside,
    address: host(2),
    mainland: host(1),
    second: host(4),
    cidr: `${net}/29`,
    plug() {
      must([
        ['ip', 'link', 'set', there, 'netns', name],
        [...inside, 'ip', 'addr', 'add', `${host(2)}/29`, 'dev', there],
        [...inside, 'ip', 'link', 'set', there, 'up'],
      ]);
    },
    unplug: () => must([[...inside, 'ip', 'link', 'set', there, 'netns', '1']]),
    drop: (address, drops) =>
      must([[...inside, ...(drops ? lose(address) : ['ip', 'neigh', 'del', address, 'dev', there])]]),
    sentBytes: () => Number(readFileSync(`/sys/class/net/${here}/statistics/rx_bytes`, 'utf8')),
  };
}

/** An island whose cable is plugged in: another machine of this one's LAN. */
export function makeLan(): Island | string {
  const island = makeIsland();
  if (typeof island !== 'string') island.plug();
  return island;
}

function must(steps: readonly (readonly string[])[]): void {
  const failed = run(steps);
  if (failed !== '') throw new Error(failed);
}

/** The failure; empty: none. */
export function run(steps: readonly (readonly string[])[]): string {
  for (const [command = '', ...args] of steps) {
    const done = spawnSync(command, args, { encoding: 'utf8' });
    if (done.status !== 0) return `${command} ${args.join(' ')}: ${done.error?.message ?? done.stderr}`;
  }
  return '';
}
