/**
 * Every step by which the appliance changes a disk, each whole in itself and flushed. Tests hand in one that fails or
 * dies at the nth step, since a plug is pulled at any of them.
 */
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeSync,
} from 'node:fs';
import { LinesideError, messageOf, systemCode } from '../shared/base/errors.ts';

export interface Disk {
  /** A whole new file, flushed; one of that name is emptied first. */
  write(path: string, bytes: Uint8Array, mode: number): void;
  /** Over a file that stays where it is, for what cannot be renamed over (a bind mount) or is to leave no copy (FAT). */
  overwrite(path: string, bytes: Uint8Array): void;
  rename(from: string, to: string): void;
  /** A file or a directory with its content; does nothing if it does not exist. */
  remove(path: string): void;
  /** With those above it, if they are missing. */
  makeDir(path: string, mode: number): void;
  owner(path: string, uid: number, gid: number): void;
  /** Names in a directory survive a power cut once it is flushed. */
  flushDir(path: string): void;
}

export const realDisk: Disk = {
  write(path, bytes, mode) {
    writeSynced(path, [bytes], 'w', mode);
    // The mode of open is subject to the umask, and does nothing to a file that was there.
    chmodSync(path, mode);
  },
  overwrite(path, bytes) {
    writeSynced(path, [bytes], 'r+');
  },
  rename: renameSync,
  remove: (path) => rmSync(path, { recursive: true, force: true }),
  makeDir(path, mode) {
    if (mkdirSync(path, { recursive: true, mode }) !== undefined) chmodSync(path, mode);
  },
  owner: chownSync,
  flushDir: syncPath,
};

/** A file with this content alone, on the medium when this returns. `onSynced`: before it is closed. */
export function writeSynced(
  path: string,
  pieces: Iterable<Uint8Array>,
  flags: 'w' | 'wx' | 'r+' = 'w',
  mode = 0o600,
  onSynced: (fd: number) => void = () => undefined,
): void {
  using file = opened(path, flags, mode);
  let bytes = 0;
  for (const piece of pieces) {
    writeWhole(file.fd, piece);
    bytes += piece.length;
  }
  ftruncateSync(file.fd, bytes);
  fsyncSync(file.fd);
  onSynced(file.fd);
}

export function opened(...how: Parameters<typeof openSync>): Disposable & { readonly fd: number } {
  const fd = openSync(...how);
  return { fd, [Symbol.dispose]: () => closeSync(fd) };
}

export function freeBytes(dir: string): number {
  const { bavail, bsize } = statfsSync(dir);
  return bavail * bsize;
}

/** Throws STORAGE_FULL. */
export function demandRoom(dir: string, needed: number, what: string, hint: string): void {
  const free = freeBytes(dir);
  if (free >= needed) return;
  throw new LinesideError('STORAGE_FULL', `${dir} has ${free} bytes free, ${what} needs ${needed}`, { hint });
}

/** Of what was read back from the medium and is not what was written. */
export function notStored(what: string, consequence = ''): LinesideError {
  return new LinesideError('STORAGE_FAILED', `${what} does not hold what was written to it${consequence}`, {
    hint: 'The card is failing: make a backup and write a new card.',
  });
}

/** A medium may read differently the second time, by age or on purpose: only what was checked is put in place. */
export function readDifferently(what: string, done: 'switched' | 'replaced'): LinesideError {
  return new LinesideError('MALFORMED', `${what} was read differently than before: nothing was ${done}`, {
    hint: 'The medium that it lies on is failing: copy it elsewhere.',
  });
}

/** What is in a directory, and with `recursive` below it; nothing where there is no such directory. */
export function namesIn(dir: string, recursive = false): string[] {
  try {
    return readdirSync(dir, { recursive, encoding: 'utf8' });
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(systemCode(error))) return [];
    throw error;
  }
}

export function openFault(error: unknown): string {
  return systemCode(error) === 'ENOENT' ? 'there is no such file' : messageOf(error);
}

export function writeWhole(fd: number, piece: Uint8Array, at: number | null = null): void {
  for (let done = 0; done < piece.length; ) {
    done += writeSync(fd, piece, done, piece.length - done, at === null ? null : at + done);
  }
}

/** A file or a directory; nothing if it is gone already, as when an interrupted step is done again. */
export function syncPath(path: string): void {
  if (!existsSync(path)) return;
  using file = opened(path, 'r');
  try {
    fsyncSync(file.fd);
  } catch (error) {
    // A read-only file system (erofs) has nothing to flush, and says so: the directory holds mount points alone.
    if (systemCode(error) !== 'EINVAL') throw error;
  }
}

/**
 * Root at work in a directory of the service: as the user who owns it. A service that was taken over may put a link where
 * root expects a file, and swap a directory between two steps; followed as that user, they lead to nothing that it could
 * not reach itself. `work` completes before this returns: nothing of it may wait.
 */
export function asOwnerOf<T>(dir: string, work: () => T): T {
  const { setegid, seteuid, setgroups, getgroups, getegid } = process;
  const owner = statSync(dir, { throwIfNoEntry: false });
  if (process.geteuid?.() !== 0 || owner === undefined || owner.uid === 0) return work();
  const [groups, gid] = [getgroups?.() ?? [], getegid?.() ?? 0];
  try {
    setgroups?.([owner.gid]);
    setegid?.(owner.gid);
    seteuid?.(owner.uid);
    return work();
  } finally {
    seteuid?.(0);
    setegid?.(gid);
    setgroups?.(groups);
  }
}
