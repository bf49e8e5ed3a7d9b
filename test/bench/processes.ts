/** Processes of one benchmark run, and their figures in /proc: started as the end-to-end tests start theirs, and gone at the end. */
import { type ChildProcess, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { environment, killGroup, NODE, startProcess } from '../e2e/daemon.ts';
import { type Line, more } from './table.ts';

/** A process that has not ended so long after it was asked to is killed. */
const STOP_LIMIT_MS = 10_000;

export class Skipped extends Error {}

export type Started = ChildProcess & { readonly pid: number; readonly stdout: Readable };

/** What it says on standard error is shown. */
export function start(command: string, args: readonly (string | number)[], env = environment()): Started {
  const child = startProcess(command, args.map(String), env);
  child.stderr?.pipe(process.stderr, { end: false });
  const { pid, stdout } = child;
  if (pid === undefined || stdout === null) throw new Error(`${command} did not start`);
  return Object.assign(child, { pid, stdout });
}

export async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  const limit = setTimeout(() => killGroup(child), STOP_LIMIT_MS);
  child.kill();
  await gone;
  clearTimeout(limit);
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

/** CPU seconds, those of threads that have ended too: librdkafka's come and go. In ticks of 10 ms. */
export function processSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Context switches of all threads that live now. */
export function switches(pid: number): { readonly voluntary: number; readonly forced: number } {
  let [voluntary, forced] = [0, 0];
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    const status = readFileSync(`/proc/${pid}/task/${task}/status`, 'utf8');
    voluntary += fieldOf(status, 'voluntary_ctxt_switches');
    forced += fieldOf(status, 'nonvoluntary_ctxt_switches');
  }
  return { voluntary, forced };
}

/** CPU seconds that a process takes for what `work` does. */
export async function cpuOf<T>(
  pid: number,
  work: () => Promise<T>,
): Promise<{ readonly cpu: number; readonly result: T }> {
  const before = cpuSeconds(pid);
  const result = await work();
  return { cpu: cpuSeconds(pid) - before, result };
}

/** Megabytes. */
export interface Resident {
  readonly all: number;
  /** Without the pages of files: 20 MB more of Node's own program are mapped where more of Node is used, and shared. */
  readonly anonymous: number;
}

export function residentOf(pid: number): Resident {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const megabytes = (field: string): number => fieldOf(status, field) / 1024;
  return { all: megabytes('VmRSS'), anonymous: megabytes('RssAnon') };
}

/** Of Node that does nothing, when what its start left behind has been collected, or stays. */
export async function nodeAlone(settleMs: number, env?: NodeJS.ProcessEnv): Promise<Resident> {
  const child = start(NODE, ['-e', 'setInterval(() => {}, 1e9)'], env);
  await sleep(settleMs);
  const resident = residentOf(child.pid);
  await stop(child);
  return resident;
}

export function memoryLine(row: string, figure: Resident, node: Resident, aimMb: number, note = ''): Line {
  const show = ({ all, anonymous }: Resident): string =>
    `${all.toFixed(1)} MB, ${anonymous.toFixed(1)} of it anonymous`;
  const difference = figure.all - node.all;
  const unit = `MB (anonymous +${(figure.anonymous - node.anonymous).toFixed(1)})`;
  return {
    row,
    lineside: `${show(figure)}${note}`,
    against: `Node alone: ${show(node)}`,
    ...more(difference, 1, unit, `at most +${aimMb} MB`, difference <= aimMb),
  };
}

export interface Io {
  /** Bytes sent to storage: counted when a page of the page cache becomes dirty, metadata of the file system left out. */
  readonly writeBytes: number;
  /** Bytes handed to write calls of any kind, sockets included. */
  readonly wchar: number;
}

export function io(pid: number): Io {
  return ioIn(`/proc/${pid}/io`);
}

export function ioIn(file: string): Io {
  const text = readFileSync(file, 'utf8');
  return { writeBytes: fieldOf(text, 'write_bytes'), wchar: fieldOf(text, 'wchar') };
}

/** sh waits for the service; what that wrote until its very end is then sh's own account (a child's is its parent's), left in `file`. */
export function accountedIn(file: string): readonly string[] {
  return ['sh', '-c', `"$0" "$@" & wait $!; cat /proc/$$/io > ${file}`];
}

function fieldOf(text: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? Number.NaN);
}
