/** A LAN of two machines for a test: a network namespace of its own, with a cable to this one. */
import { spawnSync } from 'node:child_process';
import { after } from 'node:test';

export interface Lan {
  /** Runs a command on the other machine. */
  readonly wrapper: readonly string[];
  /** The other machine's address. */
  readonly address: string;
}

/** The LAN, or why there can be none here. Gone at the end of the file. */
export function makeLan(): Lan | string {
  const name = `lineside-${process.pid}`;
  const [here, there] = [`ls${process.pid}a`.slice(-15), `ls${process.pid}b`.slice(-15)];
  // 198.18.0.0/15 is for tests of network devices (RFC 2544): it belongs to nobody.
  const net = `198.18.${(process.pid >> 6) & 255}.${(process.pid & 63) * 4}`;
  const host = (n: number): string => net.replace(/\d+$/, (last) => String(Number(last) + n));
  const inside = ['ip', 'netns', 'exec', name];
  const steps = [
    ['ip', 'netns', 'add', name],
    ['ip', 'link', 'add', here, 'type', 'veth', 'peer', 'name', there, 'netns', name],
    ['ip', 'addr', 'add', `${host(1)}/30`, 'dev', here],
    ['ip', 'link', 'set', here, 'up'],
    [...inside, 'ip', 'addr', 'add', `${host(2)}/30`, 'dev', there],
    [...inside, 'ip', 'link', 'set', there, 'up'],
    [...inside, 'ip', 'link', 'set', 'lo', 'up'],
  ];
  // After the hooks of the file itself, and with the cable the namespace's end of it goes too.
  setImmediate(() => after(() => void spawnSync('ip', ['netns', 'del', name])));
  for (const [command = '', ...args] of steps) {
    const done = spawnSync(command, args, { encoding: 'utf8' });
    if (done.status !== 0) return `${command} ${args.join(' ')}: ${done.error?.message ?? done.stderr}`;
  }
  return { wrapper: inside, address: host(2) };
}
