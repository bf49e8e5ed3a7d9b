/** Files that a power cut leaves whole: the content is on the medium, and then the name. */
import fs from 'node:fs';
import { dirname } from 'node:path';

export interface SyncedFileOptions {
  /** The new file. Default: PATH.new. A process that was killed may have left it. */
  readonly temporary?: string;
  /** With the new file open, before it is flushed: to set its owner. */
  readonly prepare?: (fd: number) => void;
}

/** Replaces a file, for its user alone: all or nothing, and on the medium when this returns. */
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
