/** Processes and directories of one benchmark run: started here, measured by /proc, and gone at the end and on Ctrl-C. */
import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

export const ROOT = resolve(import.meta.dirname, '../..');
export const NODE = process.execPath;
/** A process that has not ended so long after it was asked to is killed. */
const STOP_LIMIT_MS = 10_000;

const groups = new Set<number>();
const directories = new Set<string>();

export class Skipped extends Error {}

/** Each process leads a group of its own, so that what it started (strace's tracee) ends with it. */
export function start(command: string, args: readonly string[], options: SpawnOptions = {}): ChildProcess {
  const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'], ...options, detached: true });
  const { pid } = child;
  if (pid !== undefined) {
    groups.add(pid);
    child.once('exit', () => groups.delete(pid));
  }
  child.on('error', (error) => console.error(`${command}: ${error.message}`));
  return child;
}

export async function stop(child: ChildProcess, pid = child.pid): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || pid === undefined) return;
  const gone = once(child, 'exit');
  const limit = setTimeout(() => killGroup(child.pid ?? pid), STOP_LIMIT_MS);
  try {
    process.kill(pid, 'SIGTERM');
  } catch {
    // It ended by itself just now.
  }
  await gone;
  clearTimeout(limit);
}

export function temporaryDirectory(): string {
  const path = mkdtempSync(join(tmpdir(), 'lineside-bench-'));
  directories.add(path);
  return path;
}

export function removeDirectory(path: string): void {
  rmSync(path, { recursive: true, force: true });
  directories.delete(path);
}

/** Synchronous: also called on the way out. */
export function cleanUp(): void {
  for (const group of groups) killGroup(group);
  groups.clear();
  for (const path of directories) removeDirectory(path);
}

function killGroup(group: number): void {
  try {
    process.kill(-group, 'SIGKILL');
  } catch {
    // Gone already.
  }
}

/** The lines of a stream, one by one; undefined when it has ended. */
export function lineReader(stream: Readable): () => Promise<string | undefined> {
  const lines = createInterface({ input: stream })[Symbol.asyncIterator]();
  return async () => {
    const next = await lines.next();
    return next.done === true ? undefined : next.value;
  };
}

export function requireCommand(command: string, from: string): void {
  const found = spawnSync('sh', ['-c', `command -v ${command}`]);
  if (found.status !== 0) throw new Skipped(`${command} is not installed (${from})`);
}

/** CPU seconds of all threads that live now: schedstat has nanoseconds where stat has 10 ms ticks. */
export function cpuSeconds(pid: number): number {
  let nanoseconds = 0;
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    const text = readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8');
    nanoseconds += Number(text.slice(0, text.indexOf(' ')));
  }
  return nanoseconds / 1e9;
}

export function residentMegabytes(pid: number): number {
  return statusMegabytes(pid, 'VmRSS');
}

/** Without the pages of files: 20 MB more of Node's own program are mapped where more of Node is used, and shared. */
export function anonymousMegabytes(pid: number): number {
  return statusMegabytes(pid, 'RssAnon');
}

function statusMegabytes(pid: number, field: string): number {
  const kib = new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
  return Number(kib ?? Number.NaN) / 1024;
}

export function childrenOf(pid: number): number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return text === '' ? [] : text.split(' ').map(Number);
}

export interface Io {
  /** Bytes sent to storage: counted when a page of the page cache becomes dirty, metadata of the file system left out. */
  readonly writeBytes: number;
  /** Bytes handed to write calls of any kind, sockets included. */
  readonly wchar: number;
}

export function parseIo(text: string): Io {
  const field = (name: string): number => Number(new RegExp(`^${name}: (\\d+)`, 'm').exec(text)?.[1] ?? Number.NaN);
  return { writeBytes: field('write_bytes'), wchar: field('wchar') };
}

export function io(pid: number): Io {
  return parseIo(readFileSync(`/proc/${pid}/io`, 'utf8'));
}

export const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));
