/** Opens log.db, checks it, and begins a new file where the old one is damaged. Runs in the log worker. */
import { existsSync, mkdirSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { LinesideError, messageOf } from '../../../shared/base/errors.ts';
import { DamagedError } from '../../../shared/base/log-block.ts';
import { companions, setAside } from '../../../shared/storage/database-files.ts';
import { type Connection, closeQuietly, openDatabase, quickCheck } from '../../../shared/storage/open.ts';
import { isDamage } from '../failures.ts';
import { logFileName, migrations, walLimitBytes } from './schema.ts';
import { removeSmallerFile } from './smaller-file.ts';

/**
 * Bytes. Measured, random payload, 115,200 baud with a commit a second: 512 writes 2.5 bytes a logged byte, 1024 2.6,
 * 2048 2.9, 4096 3.4 (every commit rewrites the last leaf, page 1 and the log's last 4 KiB); 512 still takes 120 MB/s.
 * Those 4 KiB, with each commit, are 4.3 of the 9.6 bytes for each byte of 9,600 baud in 8-byte bursts. Deflate at its best level
 * instead of its fastest makes such blocks 0.4 percent smaller.
 */
const pageSize = 512;
/** The working set is the right edge of one b-tree. */
const cacheKib = 1_024;
/** A file up to this size is checked before the log opens (64 MB/s read from a slow card: half a second). */
const checkAtOpenBytes = 32 * 1024 * 1024;

/** A database that lacks one of them is another program's. */
const ownColumns = {
  blocks: 'first_id, entries, ran_s, codec, body',
  gaps: 'first_id, last_id, entries, bytes, from_ms, to_ms, reason',
  meta: 'key, value',
  clock_segments: 'first_id, state, boot_id, offset_ms, correction_ms',
  given_times: 'first_id, bits',
  time_ranges: 'first_id, last_id, own_min_ms, own_max_ms, given_min_ms, given_max_ms',
};

interface OpenedFile {
  readonly connection: Connection;
  readonly setAside: string;
  readonly setAsideReason: string;
  /** Too large to be checked now. */
  readonly unchecked: boolean;
}

/** `release`: closes the file that is open, after it was set aside; SQLite's close would change a file that is to be kept as it is. */
export function openStoreFile(dir: string, setAsideFor: string, release: () => void): OpenedFile {
  mkdirSync(dir, { recursive: true });
  const path = join(dir, logFileName);
  refuseDirectory(path);
  removeSmallerFile(path);
  let damage = setAsideFor === '' ? strayWal(path) : setAsideFor;
  if (damage === '') {
    release();
    try {
      return { ...openSound(path), setAside: '', setAsideReason: '' };
    } catch (error) {
      if (!isDamage(error)) throw error;
      damage = messageOf(error);
    }
  }
  const target = setAside(path);
  release();
  try {
    return { ...openSound(path), setAside: target, setAsideReason: damage };
  } catch (error) {
    discardBegun(dir);
    throw error;
  }
}

/** A new file that could not be begun is empty: it must not be one more to set aside at each try. */
export function discardBegun(dir: string): void {
  for (const suffix of companions) rmSync(join(dir, logFileName + suffix), { force: true });
}

function openSound(path: string): { connection: Connection; unchecked: boolean } {
  const connection = openDatabase({ path, pageSize, migrations, cacheKib, walLimitBytes });
  try {
    // Whatever an earlier run left in the write-ahead log is checkpointed and synced before anything is built on it:
    // after a failed fsync its pages may be in the kernel's cache alone.
    connection.pragma('wal_checkpoint(TRUNCATE)');
    const unchecked = statSync(path).size > checkAtOpenBytes;
    const damage = unchecked ? '' : quickCheck(connection);
    if (damage !== '') throw new DamagedError(damage);
    for (const [table, columns] of Object.entries(ownColumns))
      connection.prepare(`SELECT ${columns} FROM ${table} LIMIT 0`);
    return { connection, unchecked };
  } catch (error) {
    closeQuietly(connection);
    throw error;
  }
}

/** SQLite would delete the write-ahead log of an empty file; it may hold all there is. */
function strayWal(path: string): string {
  return sizeOf(path) === 0 && sizeOf(`${path}-wal`) > 0 ? 'the file is empty and its write-ahead log is not' : '';
}

export function sizeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

function refuseDirectory(path: string): void {
  if (existsSync(path) && statSync(path).isDirectory()) {
    throw new LinesideError('INTERNAL', `${path} is a directory`, {
      hint: 'Move it to another directory: the log is a file of that name.',
    });
  }
}
