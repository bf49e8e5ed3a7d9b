/** A box behind a slow link, and what the link has carried: an island whose cable is shaped. */
import { spawnSync } from 'node:child_process';
import type { Island } from './island.ts';

function inside({ wrapper }: Island, ...command: readonly string[]): string {
  const [program = '', ...args] = [...wrapper, ...command];
  const done = spawnSync(program, args, { encoding: 'utf8' });
  if (done.status !== 0) throw new Error(`${command.join(' ')}: ${done.error?.message ?? done.stderr}`);
  return done.stdout;
}

/** Both directions, as the interface counts them: Ethernet's own 14 bytes a frame included. */
export function carried(island: Island): number {
  const lines = inside(island, 'cat', '/proc/self/net/dev').split('\n').slice(2);
  const counts = lines.map((line) => line.trim().split(/[:\s]+/)).filter(([name]) => name !== 'lo' && name !== '');
  return counts.reduce((sum, fields) => sum + Number(fields[1] ?? 0) + Number(fields[9] ?? 0), 0);
}

/** What leaves the island goes at this rate; less than a second of it is queued. */
export function shape(island: Island, kbitPerS: number): void {
  const [device = ''] =
    inside(island, 'ip', '-o', 'link')
      .split('\n')
      .map((line) => /^\d+: (li[^@:]+)/.exec(line)?.[1] ?? '')
      .filter((name) => name !== '') ?? [];
  const rate = ['rate', `${kbitPerS}kbit`, 'burst', '3000', 'latency', '800ms'];
  inside(island, 'tc', 'qdisc', 'replace', 'dev', device, 'root', 'tbf', ...rate);
}
