/** How a SQLite file is opened, the same way each time; nothing about its contents. */
import Database from 'better-sqlite3';
import { checkOwn, type Migrations, migrate } from './migrate.ts';

export type { Migrations } from './migrate.ts';
export type Connection = Database.Database;

/** A statement of a connection, prepared at its first use. `P`: its parameters, `R`: a row, or the value of pluck(). */
export type Sql = <P extends unknown[] | object, R = unknown>(text: string) => Database.Statement<P, R>;

export function statementsOf(connection: Connection): Sql {
  const prepared = new Map<string, Database.Statement>();
  return <P extends unknown[] | object, R>(text: string) => {
    const statement = prepared.get(text) ?? connection.prepare(text);
    prepared.set(text, statement);
    return statement as Database.Statement<P, R>;
  };
}

export interface OpenOptions {
  readonly path: string;
  /** Bytes; takes effect in a new file only. */
  readonly pageSize: number;
  readonly migrations: Migrations;
  /** Page cache, KiB. */
  readonly cacheKib: number;
  /** After a burst the write-ahead log is cut back to this at its next restart. */
  readonly walLimitBytes: number;
  /**
   * No other process opens the file while this one does, not even to read. Then there is no -shm file, whose changed pages (up to 12 KB
   * after each commit) the kernel would write to the card too.
   */
  readonly isExclusive?: true;
}

/** Another process (a backup, the sqlite3 shell) may hold a lock for a moment. */
const busyTimeoutMs = 2_000;

/**
 * Opens for writing. Every commit is on the medium when it returns (synchronous=FULL: a WAL commit with an fsync).
 * Checkpoints are the caller's: an automatic one would run inside a commit and hide its failure. Throws FILE_FOREIGN.
 */
export function openDatabase(options: OpenOptions): Connection {
  const connection = new Database(options.path, { timeout: busyTimeoutMs });
  try {
    // Before the first read: afterwards the -shm file is in use.
    if (options.isExclusive) connection.pragma('locking_mode = EXCLUSIVE');
    checkOwn(connection, options.migrations);
    // The order matters: page_size is silently ignored once the file is in WAL mode.
    connection.pragma(`page_size = ${options.pageSize}`);
    connection.pragma('journal_mode = WAL');
    settle(connection, options);
    migrate(connection, options.migrations);
    return connection;
  } catch (error) {
    closeQuietly(connection);
    throw error;
  }
}

/** Opens one more connection for writing to a file that openDatabase has made; nothing is created or migrated. */
export function openExisting(options: Pick<OpenOptions, 'path' | 'cacheKib' | 'walLimitBytes'>): Connection {
  const connection = new Database(options.path, { fileMustExist: true, timeout: busyTimeoutMs });
  try {
    settle(connection, options);
    return connection;
  } catch (error) {
    closeQuietly(connection);
    throw error;
  }
}

/** Settings that a file does not store: SQLite forgets them with the connection. */
function settle(
  connection: Connection,
  { cacheKib, walLimitBytes }: Pick<OpenOptions, 'cacheKib' | 'walLimitBytes'>,
): void {
  connection.pragma('synchronous = FULL');
  connection.pragma('wal_autocheckpoint = 0');
  connection.pragma(`journal_size_limit = ${walLimitBytes}`);
  connection.pragma(`cache_size = -${cacheKib}`);
}

/** Opens for reading alone, beside the writer, as a check does. */
export function openReadOnly(path: string): Connection {
  return new Database(path, { readonly: true, fileMustExist: true, timeout: busyTimeoutMs });
}

/** '' when the file is sound, else what the check found first. Throws when the file cannot be read. */
export function quickCheck(connection: Connection): string {
  const found = String(connection.prepare('PRAGMA quick_check(1)').pluck().get());
  if (found === 'ok') return '';
  // The check reports a read that failed as if it were a finding: "unable to get the page. error code=266".
  const code = Number(/error code[ =](\d+)/.exec(found)?.[1] ?? 0);
  if ((code & 0xff) === SQLITE_IOERR) throw new Unreadable(found);
  return found;
}

/** The primary result code in the low byte of SQLite's extended ones. */
const SQLITE_IOERR = 10;

class Unreadable extends Error {
  readonly code = 'SQLITE_IOERR';
}

export function closeQuietly(connection: Connection): void {
  try {
    connection.close();
  } catch {
    // Closing is all that was wanted; what failed before is what the caller reports.
  }
}
