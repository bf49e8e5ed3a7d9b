/**
 * Opens refdata.db: for the hub, and for the import worker. A database of another program in its place is set aside. A damaged
 * refdata.db is refused and left as it is: an empty one in its place would count versions from 1 again and lose every change
 * that still waits for the broker.
 */
import { existsSync, mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Clock } from '../../shared/base/clock.ts';
import { LinesideError, systemCode } from '../../shared/base/errors.ts';
import { FILE_FOREIGN } from '../../shared/storage/migrate.ts';
import {
  type Connection,
  closeQuietly,
  type Migrations,
  openDatabase,
  openExisting,
  openReadOnly,
  quickCheck,
} from '../../shared/storage/open.ts';
import { setAside } from '../../shared/storage/set-aside.ts';
import { limitPages } from './budget.ts';
import { walLimitBytes } from './checkpoints.ts';
import type { Author } from './event.ts';
import { damagedHint, storageError } from './storage-errors.ts';
import { type Change, Transactions } from './transaction.ts';

export const refdataFileName = 'refdata.db';

/** Bytes, the page of the file system: a change touches few rows of many tables, so smaller pages save nothing (SQLite's default). */
const pageSize = 4_096;
/** Upper levels and right edges of some ten b-trees, and what the publisher reads ahead. */
const cacheKib = 4_096;
/** A file up to this size is checked before it is opened (64 MB/s read from a slow card: half a second). */
const checkAtOpenBytes = 32 * 1024 * 1024;

export interface OpenedFile {
  readonly connection: Connection;
  /** Too large to be checked now; for ChangeStoreOptions. */
  readonly unchecked: boolean;
  /** Where another program's database that lay in its place is now; '' there was none. */
  readonly setAside: string;
}

/** Throws STORAGE_DAMAGED with a hint, STORAGE_FULL, STORAGE_FAILED; INTERNAL where a newer lineside wrote the file. */
export function openRefdataFile(dir: string, migrations: Migrations): OpenedFile {
  const path = join(dir, refdataFileName);
  try {
    mkdirSync(dir, { recursive: true });
    const unchecked = !checked(path);
    const { connection, setAside } = openOwn(path, migrations);
    try {
      // What an earlier run left in the write-ahead log is synced before anything is built on it: after a failed fsync its
      // pages may be in the kernel's cache alone.
      connection.pragma('wal_checkpoint(TRUNCATE)');
      return { connection, unchecked, setAside };
    } catch (error) {
      closeQuietly(connection);
      throw error;
    }
  } catch (error) {
    throw storageError(error);
  }
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

/** Before anything is written to it: a connection that writes would begin to carry the write-ahead log over. */
function checked(path: string): boolean {
  const size = sizeOf(path);
  // SQLite would delete the write-ahead log of an empty file; it may hold all there is.
  if (size === 0 && sizeOf(`${path}-wal`) > 0) throw damaged('the file is empty and its write-ahead log is not');
  if (size === 0) return true;
  const large = size > checkAtOpenBytes;
  const connection = openReadOnly(path);
  try {
    // Of a large file the first page at least: that it is a database, and its list of tables.
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

/**
 * refdata.db from the import worker: one synchronous transaction at a time on a connection of its own, by the same rules for
 * stamps, events and audit, while the main thread holds the write slot for it (ChangeStore.hold).
 */
interface ImportConnectionOptions {
  /** Of refdata.db. */
  readonly path: string;
  /** Bytes refdata.db may hold; a change that would take it further fails with STORAGE_FULL. */
  readonly maxBytes: number;
  /** Page cache, KiB. */
  readonly cacheKib: number;
  readonly clock: Clock;
}

export class ImportConnection {
  readonly connection: Connection;
  readonly #transactions: Transactions;

  /** Throws STORAGE_FAILED or STORAGE_DAMAGED. */
  constructor({ path, maxBytes, cacheKib, clock }: ImportConnectionOptions) {
    try {
      this.connection = openExisting({ path, cacheKib, walLimitBytes });
      limitPages(this.connection, maxBytes, false);
      this.#transactions = new Transactions(this.connection, clock);
    } catch (error) {
      throw storageError(error);
    }
  }

  /** All of `work` or nothing, on the medium when it returns. Throws as ChangeStore.commit rejects. */
  change<T>(author: Author, work: (change: Change) => T): T {
    try {
      return this.#transactions.change(author, work).result;
    } catch (error) {
      throw storageError(error);
    }
  }

  /**
   * Carries what was written over into the file and closes. Before the write slot is released: otherwise the main
   * thread's next checkpoint would write a whole import's pages in one go.
   */
  close(): void {
    try {
      this.connection.pragma('wal_checkpoint(PASSIVE)');
    } catch {
      // What was committed is safe in the write-ahead log; the main thread's checkpoint tries again.
    }
    closeQuietly(this.connection);
  }
}
