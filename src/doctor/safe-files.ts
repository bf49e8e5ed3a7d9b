/**
 * Reads files that the configuration names: only plain files are read, a FIFO cannot block the open, and the size is limited.
 * Failures are values without any content.
 */

import { spawn } from 'node:child_process';
import { constants, type Stats } from 'node:fs';
import { lstat, open, readdir, stat } from 'node:fs/promises';
import type { Clock } from '../shared/base/clock.ts';
import { systemCode } from '../shared/base/errors.ts';

export type FileRead =
  | { readonly kind: 'text'; readonly bytes: Buffer; readonly stats: Stats; readonly whole: boolean }
  | { readonly kind: 'missing' | 'denied' }
  /** "a FIFO": there, and no file to be read. */
  | { readonly kind: 'odd'; readonly what: string }
  | { readonly kind: 'failed'; readonly code: string };

/** The largest file of a configuration: a bundle of authorities has 220 KB. */
const usualLimitBytes = 1024 * 1024;

export async function readSafely(path: string, limitBytes = usualLimitBytes): Promise<FileRead> {
  try {
    const before = await stat(path);
    if (!before.isFile()) return { kind: 'odd', what: kindOf(before) };
    // It may have been replaced by a FIFO meanwhile: O_NONBLOCK opens that without waiting.
    await using file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    const stats = await file.stat();
    if (!stats.isFile()) return { kind: 'odd', what: kindOf(stats) };
    return await readOpen(file, stats, limitBytes);
  } catch (error) {
    return failureOf(error);
  }
}

/** Files of the kernel report a size of 0: they are read to their end. */
async function readOpen(file: Awaited<ReturnType<typeof open>>, stats: Stats, limitBytes: number): Promise<FileRead> {
  const parts: Buffer[] = [];
  let bytes = 0;
  const piece = Buffer.alloc(64 * 1024);
  while (bytes < limitBytes) {
    const { bytesRead } = await file.read(piece, 0, Math.min(piece.length, limitBytes - bytes), null);
    if (bytesRead === 0) return { kind: 'text', bytes: Buffer.concat(parts), stats, whole: true };
    parts.push(Buffer.from(piece.subarray(0, bytesRead)));
    bytes += bytesRead;
  }
  return { kind: 'text', bytes: Buffer.concat(parts), stats, whole: false };
}

/** '' if it cannot be read, for whatever reason. */
export async function textOf(path: string, limitBytes?: number): Promise<string> {
  const read = await readSafely(path, limitBytes);
  return read.kind === 'text' ? read.bytes.toString('utf8').trim() : '';
}

/** [] if it cannot be read. */
export async function namesIn(dir: string): Promise<string[]> {
  const names = await readdir(dir).catch(() => []);
  return names.sort((a, b) => (a < b ? -1 : 1));
}

export function isThere(path: string): Promise<boolean> {
  return succeeds(lstat(path));
}

export function succeeds(work: Promise<unknown>): Promise<boolean> {
  return work.then(
    () => true,
    () => false,
  );
}

function failureOf(error: unknown): FileRead {
  const code = systemCode(error);
  if (code === 'ENOENT' || code === 'ENOTDIR') return { kind: 'missing' };
  if (code === 'EACCES' || code === 'EPERM') return { kind: 'denied' };
  return { kind: 'failed', code: code === '' ? 'unknown' : code };
}

export function wordsOf(read: Exclude<FileRead, { kind: 'text' }>): string {
  if (read.kind === 'odd') return read.what;
  if (read.kind === 'failed') return read.code;
  return read.kind === 'missing' ? 'there is no such file' : read.kind;
}

export function kindOf(stats: Stats): string {
  if (stats.isDirectory()) return 'a directory';
  if (stats.isFIFO()) return 'a FIFO';
  if (stats.isSocket()) return 'a socket';
  if (stats.isCharacterDevice() || stats.isBlockDevice()) return 'a device';
  return 'a file';
}

export function modeOf({ mode }: Pick<Stats, 'mode'>): string {
  return `0${(mode & 0o7777).toString(8).padStart(3, '0')}`;
}

// A program of the system, run with a limit: it is killed there, and not waited for if it cannot be killed.

export interface ToolAnswer {
  readonly kind: 'done' | 'missing' | 'late' | 'failed';
  /** Its last part if it exceeds the limit. */
  readonly stdout: string;
  readonly stderr: string;
  readonly cut: boolean;
}

export interface ToolLimits {
  readonly limitMs: number;
  readonly limitBytes: number;
}

const stderrLimitBytes = 16 * 1024;

export function runTool(clock: Clock, program: string, args: readonly string[], limits: ToolLimits) {
  return new Promise<ToolAnswer>((resolve) => {
    const [out, err] = [new Tail(limits.limitBytes), new Tail(stderrLimitBytes)];
    const child = spawn(program, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, LC_ALL: 'C', PAGER: 'cat' },
    });
    const give = (kind: ToolAnswer['kind']): void => {
      limit.cancel();
      // A process that hangs in the kernel takes no signal: do not wait for it.
      child.stdout.destroy();
      child.stderr.destroy();
      child.unref();
      resolve({ kind, stdout: out.text(), stderr: err.text(), cut: out.cut });
    };
    const limit = clock.timer(limits.limitMs, () => {
      child.kill('SIGKILL');
      give('late');
    });
    child.stdout.on('data', (part: Buffer) => out.add(part));
    child.stderr.on('data', (part: Buffer) => err.add(part));
    child.once('error', (error) => give(systemCode(error) === 'ENOENT' ? 'missing' : 'failed'));
    child.once('close', (status) => give(status === 0 ? 'done' : 'failed'));
  });
}

/** The last `limit` bytes of an output. */
class Tail {
  readonly #limit: number;
  readonly #parts: Buffer[] = [];
  #bytes = 0;
  cut = false;

  constructor(limit: number) {
    this.#limit = limit;
  }

  add(part: Buffer): void {
    this.#parts.push(part);
    this.#bytes += part.length;
    this.cut ||= this.#bytes > this.#limit;
    while (this.#bytes - (this.#parts[0]?.length ?? 0) >= this.#limit) this.#bytes -= this.#parts.shift()?.length ?? 0;
  }

  text(): string {
    const all = Buffer.concat(this.#parts).subarray(-this.#limit).toString('utf8');
    // Half a line may lack the word that says that its rest is secret.
    return this.cut ? all.slice(all.indexOf('\n') + 1) : all;
  }
}
