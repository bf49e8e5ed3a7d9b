/**
 * Files that the configuration names, read without being caught: what is no plain file is not opened for reading, a FIFO cannot hold
 * up an open, and only so much is read. Failures are values, and say nothing of a content.
 */
import { constants, type Stats } from 'node:fs';
import { lstat, open, readdir, stat } from 'node:fs/promises';
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
    // It may have been replaced meanwhile: O_NONBLOCK opens a FIFO too without waiting.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    try {
      const stats = await file.stat();
      if (!stats.isFile()) return { kind: 'odd', what: kindOf(stats) };
      return await readOpen(file, stats, limitBytes);
    } finally {
      await file.close();
    }
  } catch (error) {
    return failureOf(error);
  }
}

/** Files of the kernel say that they have no bytes: they are read to their end. */
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

/** '' where it cannot be read, for whatever reason. */
export async function textOf(path: string, limitBytes?: number): Promise<string> {
  const read = await readSafely(path, limitBytes);
  return read.kind === 'text' ? read.bytes.toString('utf8').trim() : '';
}

/** [] where it cannot be read. */
export async function namesIn(dir: string): Promise<string[]> {
  const names = await readdir(dir).catch(() => []);
  return names.sort((a, b) => (a < b ? -1 : 1));
}

export async function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
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
