/** Small files: read if they are there, and replaced so that a power cut leaves them whole. */
import fs from 'node:fs';
import { dirname } from 'node:path';

/** '' if it cannot be read, for whatever reason: files of the kernel, and others that may be missing. */
export function readText(path: string): string {
  try {
    return fs.readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

export interface SyncedFileOptions {
  /** The new file. Default: PATH.new. A process that was killed may have left it. */
  readonly temporary?: string;
  /** With the new file open, before it is flushed: to set its owner. */
  readonly prepare?: (fd: number) => void;
}

/** Replaces a file, for its user alone: all or nothing, and on the medium when this returns. First the content, then the name. */
export function replaceSynced(
  path: string,
  content: string | Uint8Array,
  { temporary = `${path}.new`, prepare = () => undefined }: SyncedFileOptions = {},
): void {
  // The one that was left may have another mode or owner.
  fs.rmSync(temporary, { force: true });
  const fd = fs.openSync(temporary, 'wx', 0o600);
  try {
    fs.writeFileSync(fd, content);
    prepare(fd);
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
  fs.renameSync(temporary, path);
  // A rename survives a power cut once its directory is flushed.
  syncPath(dirname(path));
}

export function syncPath(path: string): void {
  const fd = fs.openSync(path, 'r');
  try {
    fs.fsyncSync(fd);
  } finally {
    fs.closeSync(fd);
  }
}
