/** One database of a running service into a file of its own, as it was at one moment. */
import { statSync } from 'node:fs';
import { dirname } from 'node:path';
import { LinesideError } from '../shared/base/errors.ts';
import { versionOf } from '../shared/storage/migrate.ts';
import { type Connection, closeQuietly, openReadOnly, quickCheck } from '../shared/storage/open.ts';
import { asOwnerOf } from './as-owner.ts';

/** Of a slice. */
const sliceBytes = 1024 * 1024;
/**
 * While the copy is made the service's write-ahead log cannot be begun again: it grows by what is written. The line stops
 * storing entries when it has grown by a quarter of the log (at least 12 MiB): the copy is abandoned well before.
 */
const minWalGrowthBytes = 8 * 1024 * 1024;
const walGrowthDivisor = 8;

/**
 * One read transaction for all slices: SQLite would begin the copy again after each commit of another process, and beside a
 * busy line never end. Writers are not held up by a reader. Throws STORAGE_DAMAGED where the copy is not sound.
 */
export async function copyDatabase(
  source: string,
  target: string,
  onProgress: (doneBytes: number, ofBytes: number) => void,
): Promise<{ readonly version: number }> {
  // SQLite opens what lies beside the file, and makes it where it is missing: all of that before the copy begins.
  const connection = asOwnerOf(dirname(source), () => openForCopy(source));
  try {
    const pageSize = Number(connection.pragma('page_size', { simple: true }));
    const pages = Math.max(1, Math.floor(sliceBytes / pageSize));
    const version = versionOf(connection);
    const started = walBytes(source);
    const mostGrowth = Math.max(minWalGrowthBytes, statSync(source).size / walGrowthDivisor);
    await connection.backup(target, {
      progress({ totalPages, remainingPages }) {
        onProgress((totalPages - remainingPages) * pageSize, totalPages * pageSize);
        if (walBytes(source) - started > mostGrowth) throw tooBusy(source);
        return pages;
      },
    });
    check(source, target);
    return { version };
  } finally {
    asOwnerOf(dirname(source), () => closeQuietly(connection));
  }
}

function openForCopy(source: string): Connection {
  const connection = openReadOnly(source);
  try {
    connection.exec('BEGIN');
    connection.prepare('SELECT count(*) FROM sqlite_schema').get();
    return connection;
  } catch (error) {
    closeQuietly(connection);
    throw error;
  }
}

function check(source: string, target: string): void {
  const copy = openReadOnly(target);
  try {
    const found = quickCheck(copy);
    if (found === '') return;
    throw new LinesideError('STORAGE_DAMAGED', `${source} is damaged: ${found}`, {
      hint: 'A copy of it would be damaged too. --no-log leaves a damaged log out.',
    });
  } finally {
    closeQuietly(copy);
  }
}

function walBytes(source: string): number {
  return statSync(`${source}-wal`, { throwIfNoEntry: false })?.size ?? 0;
}

function tooBusy(source: string): LinesideError {
  return new LinesideError('STORAGE_FAILED', `${source} is written to faster than it can be copied`, {
    hint: 'Take a faster medium, or a quieter hour; --no-log leaves the serial log out.',
  });
}
