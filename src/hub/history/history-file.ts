/**
 * history.db: a row for each hour in which the hub ran, of up to 60 minutes (minutes.ts). Order is the id, never the clock: a row says
 * at which minute of which boot it begins, and what the wall clock was against the boot's when it was written. A damaged file is set
 * aside and a new one begun: the history is worth less than a hub that starts.
 */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import type { ClockState } from '../../shared/host/clock-sync.ts';
import { setAside } from '../../shared/storage/database-files.ts';
import { FILE_FOREIGN } from '../../shared/storage/migrate.ts';
import {
  type Connection,
  closeQuietly,
  openDatabase,
  quickCheck,
  type Sql,
  statementsOf,
} from '../../shared/storage/open.ts';
import { MINUTES_OF_ROW } from './minutes.ts';

const historyFileName = 'history.db';

/** 30 days of uptime. */
export const MAX_STORED_MINUTES = 30 * 24 * 60;
/** Twice the rows of a box that is always on: one that is switched on and off has shorter rows. */
const MAX_ROWS = (2 * MAX_STORED_MINUTES) / MINUTES_OF_ROW;
/** Old rows are removed, and the write-ahead log is checkpointed, with each so many commits: once a day. */
const COMMITS_PER_UPKEEP = 24;
/**
 * Bytes. Measured over 10 days with rows of 1,100 random bytes, bytes that reach the card in a day (whole blocks of 4 KiB, without
 * those of ext4's journal): 512: 236 KB, 1,024: 263 KB, 4,096: 373 KB; of 512, with rows removed at each commit: 272 KB.
 */
const pageSize = 512;
const cacheKib = 256;
/** A day's commits; below the limit it is written over again, so that its size, and with it the inode, does not change. */
const walLimitBytes = 256 * 1024;

const migrations = [
  `CREATE TABLE hours (
     id INTEGER PRIMARY KEY,
     boot TEXT NOT NULL,
     first_minute INTEGER NOT NULL,
     minutes INTEGER NOT NULL,
     offset_ms INTEGER NOT NULL,
     clock TEXT NOT NULL,
     body BLOB NOT NULL
   ) STRICT`,
];

/** A row without its minutes. Boot and first minute identify it. */
export interface HourHead {
  /** The kernel's id of the boot. */
  readonly boot: string;
  /** Of the boot's monotonic clock. */
  readonly firstMinute: number;
  readonly minutes: number;
  /** Wall clock minus the boot's clock, when the row was written. */
  readonly offsetMs: number;
  /** Whether the wall clock was known to be right then. */
  readonly clock: ClockState;
}

export interface Hour extends HourHead {
  readonly body: Uint8Array;
}

export interface StoredHead extends HourHead {
  readonly id: number;
}

const headColumns = 'boot, first_minute AS firstMinute, minutes, offset_ms AS offsetMs, clock';

export class HistoryFile {
  readonly #path: string;
  readonly #logger: Logger;
  #connection: Connection | undefined;
  /** An answer for 30 days reads 720 bodies: compiling the statement takes longer than reading one. */
  #sql: Sql | undefined;
  /** Of the file that is open. */
  #inode = 0;
  #commits = 0;

  constructor(dir: string, logger: Logger) {
    this.#path = join(dir, historyFileName);
    this.#logger = logger;
  }

  /** Oldest first. Throws if the file cannot be read. */
  heads(): StoredHead[] {
    return this.#open().prepare<[], StoredHead>(`SELECT id, ${headColumns} FROM hours ORDER BY id`).all();
  }

  /** Throws if the file cannot be read. */
  body(id: number): Uint8Array | undefined {
    this.#sql ??= statementsOf(this.#open());
    return this.#sql<[number], Uint8Array>('SELECT body FROM hours WHERE id = ?').pluck().get(id);
  }

  last(): Hour | undefined {
    return this.#open().prepare<[], Hour>(`SELECT ${headColumns}, body FROM hours ORDER BY id DESC LIMIT 1`).get();
  }

  /**
   * One commit, on the card when this returns. `hours`: of one boot, in order; those from the first on that are stored already are
   * replaced. If this throws, write the same hours again.
   */
  write(hours: readonly Hour[]): void {
    if (this.#isReplaced()) this.close();
    const connection = this.#open();
    const isUpkeepDue = this.#commits % COMMITS_PER_UPKEEP === 0;
    try {
      if (isUpkeepDue) connection.pragma('wal_checkpoint(PASSIVE)');
      connection.transaction(() => {
        put(connection, hours);
        if (isUpkeepDue) prune(connection);
      })();
      this.#commits += 1;
    } catch (error) {
      // A connection whose write failed is not used again.
      this.close();
      throw error;
    }
  }

  close(): void {
    if (this.#connection !== undefined) closeQuietly(this.#connection);
    this.#connection = undefined;
    this.#sql = undefined;
  }

  #open(): Connection {
    if (this.#connection !== undefined) return this.#connection;
    try {
      this.#connection = openSound(this.#path);
    } catch (error) {
      if (!isDamage(error)) throw error;
      const file = setAside(this.#path);
      this.#logger.error('history.db was damaged: it was set aside and an empty one begun', {
        file,
        error: messageOf(error),
      });
      this.#connection = openSound(this.#path);
    }
    this.#inode = inodeOf(this.#path);
    return this.#connection;
  }

  /** Removed, or another file put in its place: what is written into the open one would be lost. */
  #isReplaced(): boolean {
    return this.#connection !== undefined && inodeOf(this.#path) !== this.#inode;
  }
}

function put(connection: Connection, hours: readonly Hour[]): void {
  const [first] = hours;
  if (first === undefined) return;
  connection.prepare('DELETE FROM hours WHERE boot = $boot AND first_minute >= $firstMinute').run(first);
  const insertion = connection.prepare(
    'INSERT INTO hours VALUES (NULL, $boot, $firstMinute, $minutes, $offsetMs, $clock, $body)',
  );
  for (const hour of hours) insertion.run(hour);
}

function prune(connection: Connection): void {
  connection
    .prepare<[number, number]>(
      `DELETE FROM hours WHERE id <= (
         SELECT max(id) FROM (
           SELECT id, sum(minutes) OVER (ORDER BY id DESC) AS kept, row_number() OVER (ORDER BY id DESC) AS place FROM hours
         ) WHERE kept > ? OR place > ?
       )`,
    )
    .run(MAX_STORED_MINUTES, MAX_ROWS);
}

function openSound(path: string): Connection {
  const connection = openDatabase({ path, pageSize, migrations, cacheKib, walLimitBytes, isExclusive: true });
  try {
    // After a failed fsync, pages of the write-ahead log may be only in the kernel's cache.
    connection.pragma('wal_checkpoint(TRUNCATE)');
    const damage = quickCheck(connection);
    if (damage !== '') throw new DamagedHistory(damage);
    connection.prepare(`SELECT ${headColumns}, body FROM hours LIMIT 0`);
    return connection;
  } catch (error) {
    closeQuietly(connection);
    throw error;
  }
}

const DAMAGED = 'HISTORY_DAMAGED';

class DamagedHistory extends Error {
  readonly code = DAMAGED;
}

function isDamage(error: unknown): boolean {
  const code = systemCode(error);
  return [DAMAGED, FILE_FOREIGN, 'SQLITE_NOTADB', 'SQLITE_ERROR'].includes(code) || code.startsWith('SQLITE_CORRUPT');
}

function inodeOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.ino ?? 0;
}
