/**
 * Files that commands change, one process at a time. The lock (flock(2)) is on a file beside it, since each change replaces the file
 * itself; the kernel releases the lock with the process, however that ends.
 */
import { closeSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { systemClock } from './clock.ts';
import { openLockFile } from './data-directory.ts';
import { LinesideError, messageOf, systemCode } from './errors.ts';
import { tryLock } from './libc.ts';

/** A change takes milliseconds, on a worn card a second. Commands of a script may wait for each other. */
const LOCK_WAIT_MS = 30_000;
const LOCK_POLL_MS = 10;

/** Throws CONFLICT if another process holds the lock all the time. */
export function withFileLock<T>(file: string, work: () => T): T {
  const fd = openLock(file);
  // Nothing can be written there: the work reports it, or has nothing to write.
  if (fd === undefined) return work();
  try {
    const untilMs = systemClock.monoMs() + LOCK_WAIT_MS;
    while (!tryLock(fd)) {
      if (systemClock.monoMs() > untilMs) {
        throw new LinesideError(
          'CONFLICT',
          `cannot lock ${file}: another command has it for ${LOCK_WAIT_MS / 1000} s`,
          {
            hint: `Look who it is: fuser -v ${lockOf(file)}`,
          },
        );
      }
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOCK_POLL_MS);
    }
    return work();
  } finally {
    closeSync(fd);
  }
}

/** It holds nothing: no backup has it. */
export function isFileLock(name: string): boolean {
  return /^\..+\.lock$/.test(name);
}

function lockOf(file: string): string {
  return join(dirname(file), `.${basename(file)}.lock`);
}

/** undefined: the directory is missing, or read-only. The lock is for the owner alone: others could hold it for ever. */
function openLock(file: string): number | undefined {
  const path = lockOf(file);
  try {
    return openLockFile(path);
  } catch (error) {
    if (['ENOENT', 'ENOTDIR', 'EROFS'].includes(systemCode(error))) return undefined;
    throw new LinesideError('CONFIG_INVALID', `cannot lock ${file}: ${messageOf(error)}`, {
      cause: error,
      hint: 'run it as the user that owns the file, usually root',
    });
  }
}
