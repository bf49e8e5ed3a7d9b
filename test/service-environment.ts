/** The environment that the unit and scripts/lineside give the service: tests and benchmarks run it as devices do. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export function serviceEnvironment(): Readonly<Record<string, string>> {
  const text = readFileSync(join(import.meta.dirname, '../systemd/lineside.env'), 'utf8');
  const lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  // Quoted as for the shell and systemd alike.
  return Object.fromEntries(lines.map((line) => /^(\w+)="?(.*?)"?$/.exec(line)?.slice(1) as [string, string]));
}
