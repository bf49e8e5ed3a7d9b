/**
 * One hub at a time on one refdata.db. The lock is an SQLite lock on a file beside it: the kernel's record locks, which end
 * with the process that holds them however it ends, and are not inherited by what that starts.
 */
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { LinesideError, messageOf } from './base/errors.ts';

const FILE_NAME = 'refdata.lock';

export interface HubLock {
  release(): void;
}

/** Throws CONFLICT, with the holder's process id where it can be known. The file itself stays empty. */
export function takeHubLock(dir: string): HubLock {
  const path = join(dir, FILE_NAME);
  const connection = new Database(path, { timeout: 0 });
  try {
    connection.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    connection.close();
    if (!messageOf(error).includes('locked')) {
      throw new LinesideError('STORAGE_FAILED', `cannot lock ${path}: ${messageOf(error)}`, { cause: error });
    }
    const pid = holderOf(path);
    throw new LinesideError(
      'CONFLICT',
      `another hub uses ${dir}: ${pid === undefined ? 'its process is not known' : `process ${pid}`}`,
      {
        cause: error,
        hint: 'One hub at a time: stop that one first ("systemctl stop lineside", or a signal TERM to the process).',
      },
    );
  }
  return { release: () => void connection.close() };
}

/** Of the file's record lock. undefined: nobody holds one now, or somebody who is out of sight (another PID namespace). */
function holderOf(path: string): number | undefined {
  const { dev, ino } = statSync(path);
  // proc_locks(5): "1: POSIX  ADVISORY  WRITE 1234 fe:00:131 1073741824 1073742335", major and minor in hex.
  const hex = (number: number): string => number.toString(16).padStart(2, '0');
  const file = `${hex(majorOf(dev))}:${hex(minorOf(dev))}:${ino}`;
  for (const line of readFileSync('/proc/locks', 'utf8').split('\n')) {
    const [, kind, , how, pid, where] = line.trim().split(/\s+/);
    if (kind === 'POSIX' && how === 'WRITE' && where === file && Number(pid) > 0) return Number(pid);
  }
  return undefined;
}

/** makedev(3) of Linux: 12 bits of major above 8 of minor, with the higher bits of both further up. */
function majorOf(dev: number): number {
  return Math.floor(dev / 0x100) & 0xfff;
}

function minorOf(dev: number): number {
  return (dev & 0xff) | (Math.floor(dev / 0x1000) & 0xfff00);
}
