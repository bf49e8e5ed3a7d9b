/**
 * Every step by which the appliance changes a disk, each whole in itself and flushed. Tests hand in one that fails or
 * dies at the nth step, since a plug is pulled at any of them.
 */
import {
  chmodSync,
  chownSync,
  closeSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { systemCode } from '../shared/base/errors.ts';

export interface Disk {
  /** A whole new file, flushed; one of that name is emptied first. */
  write(path: string, bytes: Uint8Array, mode: number): void;
  /** Over a file that stays where it is, for what cannot be renamed over (a bind mount) or is to leave no copy (FAT). */
  overwrite(path: string, bytes: Uint8Array): void;
  rename(from: string, to: string): void;
  /** A file or a whole directory; nothing where there is none. */
  remove(path: string): void;
  /** With those above it, where they are missing. */
  makeDir(path: string, mode: number): void;
  owner(path: string, uid: number, gid: number): void;
  /** Names in a directory survive a power cut once it is flushed. */
  flushDir(path: string): void;
}

export const realDisk: Disk = {
  write(path, bytes, mode) {
    const fd = openSync(path, 'w', mode);
    flushed(fd, bytes);
    // The mode of open is subject to the umask, and does nothing to a file that was there.
    chmodSync(path, mode);
  },
  overwrite(path, bytes) {
    flushed(openSync(path, 'r+'), bytes);
  },
  rename: renameSync,
  remove: (path) => rmSync(path, { recursive: true, force: true }),
  makeDir(path, mode) {
    if (mkdirSync(path, { recursive: true, mode }) !== undefined) chmodSync(path, mode);
  },
  owner: chownSync,
  flushDir(path) {
    const fd = openSync(path, 'r');
    try {
      fsyncSync(fd);
    } catch (error) {
      // A read-only file system (erofs) has nothing to flush, and says so: the directory holds mount points alone.
      if (systemCode(error) !== 'EINVAL') throw error;
    } finally {
      closeSync(fd);
    }
  },
};

function flushed(fd: number, bytes: Uint8Array): void {
  try {
    for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done, bytes.length - done, done);
    ftruncateSync(fd, bytes.length);
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
