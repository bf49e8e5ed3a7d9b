/**
 * Opens refdata.db: for the hub, and for the import worker. A database of another program in its place is set aside. A damaged
 * refdata.db is refused and left as it is: an empty one would count versions from 1 again and lose every change that waits.
 */
import { existsSync, mkdirSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../shared/base/clock.ts';
import { LinesideError, systemCode } from '../../shared/base/errors.ts';
import { setAside } from '../../shared/storage/database-files.ts';
import { type Batch, checkOwn, FILE_FOREIGN, migrating, pendingMoves } from '../../shared/storage/migrate.ts';
import {
  type Connection,
  closeQuietly,
  type Migrations,
  openDatabase,
  openExisting,
  openReadOnly,
  quickCheck,
} from '../../shared/storage/open.ts';
import { limitPages } from './budget.ts';
import { walLimitBytes } from './checkpoints.ts';
import type { Author } from './event.ts';
import { damagedHint, storageError } from './storage-errors.ts';
import { type Change, Transactions } from './transaction.ts';

export const refdataFileName = 'refdata.db';

/**
 * Bytes, of a new file; one of an earlier version keeps its 4,096 or 512. Tried, each in the order a create that comes alone (delivered
 * and marked), an update of a scattered record, one of 8 clients, one of a bundle, and what a change keeps in the file: 4,096: 23.5, 28.0,
 * 7.3, 1.3 and 0.6 KB; 2,048: 15.1, 20.0, 5.7, 1.3 and 0.6 KB; 1,024: 11.3, 18.8, 4.6, 1.5 and 0.7 KB; 512: 9.2, 18.1, 3.8, 1.6 and
 * 0.7 KB. A bundle takes a third longer with 512 than with any other.
 */
const pageSize = 1_024;
/** Upper levels and right edges of about ten b-trees, and the rows that the publisher reads ahead. */
const cacheKib = 4_096;
const importCacheKib = 16 * 1024;
/** A file up to this size is checked before it is opened (64 MB/s read from a slow card: half a second). */
const checkAtOpenBytes = 32 * 1024 * 1024;

export interface OpenedFile {
  readonly connection: Connection;
  /** Too large for a check at open; for ChangeStoreOptions. */
  readonly unchecked: boolean;
  /** The new path of another program's database that was in its place; '': there was none. */
  readonly setAside: string;
}

/** Throws STORAGE_DAMAGED with a hint, STORAGE_FULL, STORAGE_FAILED; INTERNAL if a newer lineside wrote the file. */
export function openRefdataFile(dir: string, migrations: Migrations): OpenedFile {
  const path = join(dir, refdataFileName);
  try {
    mkdirSync(dir, { recursive: true });
    const unchecked = !checked(path);
    const { connection, setAside } = openOwn(path, migrations);
    try {
      syncEarlierLog(connection);
      return { connection, unchecked, setAside };
    } catch (error) {
      closeQuietly(connection);
      throw error;
    }
  } catch (error) {
    throw storageError(error);
  }
}

/** Before anything is added: after a failed fsync, pages of the write-ahead log may be only in the kernel's cache. */
function syncEarlierLog(connection: Connection): void {
  connection.pragma('wal_checkpoint(TRUNCATE)');
}

function openOwn(path: string, migrations: Migrations): Pick<OpenedFile, 'connection' | 'setAside'> {
  const open = (): Connection => openDatabase({ path, pageSize, cacheKib, walLimitBytes, migrations });
  try {
    return { connection: open(), setAside: '' };
  } catch (error) {
    if (systemCode(error) !== FILE_FOREIGN) throw error;
    const aside = setAside(path);
    return { connection: open(), setAside: aside };
  }
}

/**
 * How many rows at most a migration moves that locks older programs out; undefined: there is none to be done. Changes nothing.
 * Throws STORAGE_FULL if there is not enough space for it, and the errors of openRefdataFile.
 */
export function pendingRows(dir: string, migrations: Migrations, alive: () => void): number | undefined {
  const path = join(dir, refdataFileName);
  if (sizeOf(path) === 0) return undefined;
  try {
    const connection = openReadOnly(path);
    try {
      checkOwn(connection, migrations);
      const moves = pendingMoves(connection, migrations);
      if (moves === undefined) return undefined;
      checked(path);
      const estimates = moves.map((move) => move.estimate(connection, alive));
      const bytes = estimates.reduce((sum, one) => sum + one.bytes, 0);
      const pageSize = Number(connection.pragma('page_size', { simple: true }));
      checkSpace(dir, bytes, Number(connection.pragma('freelist_count', { simple: true })) * pageSize);
      return estimates.reduce((sum, { rows }) => sum + rows, 0);
    } finally {
      closeQuietly(connection);
    }
  } catch (error) {
    if (systemCode(error) === FILE_FOREIGN) return undefined;
    throw storageError(error);
  }
}

function checkSpace(dir: string, neededBytes: number, unusedBytes: number): void {
  const { bavail, bsize } = statfsSync(dir);
  const freeBytes = bavail * bsize + unusedBytes;
  if (freeBytes >= neededBytes) return;
  throw new LinesideError(
    'STORAGE_FULL',
    `cannot migrate refdata.db: it needs up to ${neededBytes} bytes of free space and has ${freeBytes}; this start has changed nothing`,
    { hint: `Try: remove files from the file system of ${dir}, then restart lineside.` },
  );
}

/** Moves the rows in batches, each a transaction. Killed or abandoned, it continues at the next call. */
export function* moveRows(dir: string, migrations: Migrations): Generator<Batch> {
  try {
    // Without a limit of its pages: rows that are moved may need more space than outbox.max_bytes.
    const connection = openExisting({ path: join(dir, refdataFileName), cacheKib, walLimitBytes });
    try {
      syncEarlierLog(connection);
      yield* migrating(connection, migrations);
    } finally {
      closeQuietly(connection);
    }
  } catch (error) {
    throw storageError(error);
  }
}

/** Read-only: a connection that writes would begin to checkpoint the write-ahead log. False: too large. */
function checked(path: string): boolean {
  const size = sizeOf(path);
  // SQLite would delete the write-ahead log of an empty file; it may hold all there is.
  if (size === 0 && sizeOf(`${path}-wal`) > 0) throw damaged('the file is empty and its write-ahead log is not');
  if (size === 0) return true;
  const large = size > checkAtOpenBytes;
  const connection = openReadOnly(path);
  try {
    // Of a large file only the first page: that it is a database, and its list of tables.
    const found = large ? '' : quickCheck(connection);
    connection.prepare('SELECT count(*) FROM sqlite_schema').get();
    if (found !== '') throw damaged(found);
  } finally {
    closeQuietly(connection);
  }
  return !large;
}

function damaged(found: string): LinesideError {
  return new LinesideError('STORAGE_DAMAGED', `refdata.db is damaged: ${found}`, { hint: damagedHint });
}

function sizeOf(path: string): number {
  return existsSync(path) ? statSync(path).size : 0;
}

/** For the import worker, while the main thread holds the write slot for it (ChangeStore.hold). */
export class ImportConnection {
  readonly connection: Connection;
  readonly #transactions: Transactions;

  /** `maxBytes`: of refdata.db; a change beyond that fails with STORAGE_FULL. Throws STORAGE_FAILED or STORAGE_DAMAGED. */
  constructor(path: string, maxBytes: number, clock: Clock) {
    try {
      this.connection = openExisting({ path, cacheKib: importCacheKib, walLimitBytes });
      limitPages(this.connection, maxBytes, false);
      this.#transactions = new Transactions(this.connection, clock);
    } catch (error) {
      throw storageError(error);
    }
  }

  /** Throws as ChangeStore.commit rejects. */
  change<T>(author: Author, work: (change: Change) => T): T {
    try {
      return this.#transactions.change(author, work).result;
    } catch (error) {
      throw storageError(error);
    }
  }

  /** Checkpoints first: otherwise the main thread's next checkpoint would write all pages of the import at once. */
  close(): void {
    try {
      this.connection.pragma('wal_checkpoint(PASSIVE)');
    } catch {
      // The main thread's checkpoint retries.
    }
    closeQuietly(this.connection);
  }
}
