/** The processes of this machine, by /proc: which programs run, and what they hold open. */
import { readdir, readFile, readlink } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { systemCode } from './errors.ts';

export interface Running {
  readonly pid: number;
  /** "cat": as the kernel knows it, or of the command. */
  readonly name: string;
  readonly isLineside: boolean;
  readonly uid: number;
}

export interface Holders {
  readonly holders: readonly Running[];
  /** Processes of others whose files this user may not see. */
  readonly unseen: number;
}

export async function processIds(proc: string): Promise<number[]> {
  const names = await readdir(proc).catch(() => []);
  return names.flatMap((name) => (/^\d+$/.test(name) ? [Number(name)] : [])).toSorted((a, b) => a - b);
}

/** The processes that have the file at `path` open: its real path, as the links in /proc show it. */
export async function holdersOf(proc: string, path: string): Promise<Holders> {
  const holders: Running[] = [];
  let unseen = 0;
  for (const pid of await processIds(proc)) {
    if (pid === process.pid) continue;
    const seen = await hasOpen(join(proc, String(pid), 'fd'), path);
    if (seen === 'unseen') unseen++;
    if (seen === 'yes') holders.push(await runningOf(proc, pid));
  }
  return { holders, unseen };
}

async function hasOpen(dir: string, path: string): Promise<'yes' | 'no' | 'unseen'> {
  let names: string[];
  try {
    names = await readdir(dir);
  } catch (error) {
    return ['EACCES', 'EPERM'].includes(systemCode(error)) ? 'unseen' : 'no';
  }
  for (const name of names) {
    const target = await readlink(join(dir, name)).catch(() => '');
    if (target === path) return 'yes';
  }
  return 'no';
}

export async function runningOf(proc: string, pid: number): Promise<Running> {
  const at = join(proc, String(pid));
  const [name, command, status] = await Promise.all([
    textOf(join(at, 'comm')),
    textOf(join(at, 'cmdline')),
    textOf(join(at, 'status')),
  ]);
  const words = command.split('\0');
  const program = basename(words[0] ?? '').replaceAll(/[^\w.+-]/g, '');
  const isLineside = words.some((word) => /(?:^|\/)(?:main\.js|lineside)$/.test(word)) && words.includes('serve');
  // The kernel's name is cut at 15 characters, and Node calls its main thread so, whatever the program is.
  const isName = name !== '' && name.length < 15 && name !== 'MainThread';
  return {
    pid,
    name: isName ? name : program || name,
    isLineside,
    uid: Number(/^Uid:\s+(\d+)/m.exec(status)?.[1] ?? -1),
  };
}

/** The processes of a unit: its control group is empty, or gone, while it does not run. */
export async function pidsOfUnit(sys: string, unit: string): Promise<number[]> {
  const procs = await textOf(join(sys, 'fs/cgroup/system.slice', unit, 'cgroup.procs'));
  return procs === '' ? [] : procs.split('\n').map(Number);
}

/** "process 812 (minicom)" */
export function processText({ pid, name }: Pick<Running, 'pid' | 'name'>): string {
  return name === '' ? `process ${pid}` : `process ${pid} (${name})`;
}

/** '' if it cannot be read. */
async function textOf(path: string): Promise<string> {
  return (await readFile(path, 'utf8').catch(() => '')).trim();
}
