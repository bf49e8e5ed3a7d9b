/** The list of metrics that dashboards and rules out in the field are built on: metrics.golden.txt. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Golden {
  readonly name: string;
  readonly type: string;
  readonly labels: readonly string[];
  readonly help: string;
}

export const GOLDEN_FILE = join(import.meta.dirname, 'metrics.golden.txt');

/** "name type {label,label} help"; lines that begin with "#" are remarks. */
export function golden(): Golden[] {
  return readFileSync(GOLDEN_FILE, 'utf8')
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name = '', type = '', labels = '', help = ''] = /^(\S+) (\S+) \{(\S*)\} (.*)$/.exec(line) ?? [];
      return { name, type, labels: labels.split(',').filter((label) => label !== ''), help };
    });
}

export function goldenLine({ name, type, labels, help }: Golden): string {
  return `${name} ${type} {${labels.join(',')}} ${help}`;
}
