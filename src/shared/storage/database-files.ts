/**
 * Notices that an open database is no longer the file that its name leads to: SQLite goes on with a file that was removed,
 * replaced or truncated, and each commit succeeds. Asked before and after each commit that a caller gets an answer for. What is
 * harmed after the answer is found at the next commit: it was stored when it was said to be.
 */
import { type Stats, statSync } from 'node:fs';
import { basename } from 'node:path';
import type { Connection } from './open.ts';
import { setAside } from './set-aside.ts';

/** The file that is open is not the one that its name leads to. */
export const FILE_LOST = 'FILE_LOST';

export class FileLostError extends Error {
  readonly code = FILE_LOST;
}

/** Header of the write-ahead log's file, and of each frame beside its page. */
const walHeaderBytes = 32;
const frameHeaderBytes = 24;

interface WalSizes {
  /** Frames in the write-ahead log, and those of them that are in the main file too; -1: none was written yet. */
  readonly log: number;
  readonly checkpointed: number;
}

export class DatabaseFiles {
  readonly #connection: Connection;
  readonly #path: string;
  readonly #name: string;
  readonly #pageSize: number;
  readonly #pageCount;
  readonly #walSizes;
  readonly #main: Stats;
  #wal: Stats | undefined;
  /** The main file is at least this long; less where pages were given back since. */
  #mainBytes: number;

  /** For a connection that was just opened. */
  constructor(connection: Connection) {
    this.#connection = connection;
    this.#path = connection.name;
    this.#name = basename(connection.name);
    this.#pageSize = Number(connection.pragma('page_size', { simple: true }));
    this.#pageCount = connection.prepare<[], number>('PRAGMA page_count').pluck();
    this.#walSizes = connection.prepare<[], WalSizes>('PRAGMA wal_checkpoint(NOOP)');
    this.#main = statSync(this.#path);
    this.#mainBytes = this.#main.size;
    this.#wal = this.#identifyWal();
  }

  /** Bytes written to the write-ahead log since it was restarted. */
  get walBytes(): number {
    const { log } = this.#walSizes.get() ?? { log: 0 };
    return this.#bytesOf(log);
  }

  /** Throws FILE_LOST; a missing write-ahead log is replaced, since the open one holds all of it still. Not in a transaction. */
  verify(): void {
    // A change by another program's checkpoint between two looks is no loss.
    const found = this.#look() && this.#look();
    if (found) throw new FileLostError(found);
  }

  /** The loss in words; '': none. */
  #look(): string {
    const { log, checkpointed } = this.#walSizes.get() ?? { log: 0, checkpointed: 0 };
    const needed = (this.#pageCount.get() ?? 0) * this.#pageSize;
    const main = statSync(this.#path, { throwIfNoEntry: false });
    if (!isSame(main, this.#main)) return this.#mainLost(main);
    const wal = statSync(`${this.#path}-wal`, { throwIfNoEntry: false });
    if (!isSame(wal, this.#wal)) {
      this.#renewWal();
      return '';
    }
    if ((wal?.size ?? 0) < this.#bytesOf(log)) return `${this.#name}-wal was truncated while lineside was running`;
    this.#mainBytes = log === checkpointed ? needed : Math.min(this.#mainBytes, needed);
    return (main?.size ?? 0) < this.#mainBytes ? `${this.#name} was truncated while lineside was running` : '';
  }

  #bytesOf(frames: number): number {
    return frames <= 0 ? 0 : walHeaderBytes + frames * (frameHeaderBytes + this.#pageSize);
  }

  #mainLost(found: Stats | undefined): string {
    // A process that opens the other file would take this write-ahead log for that file's own.
    if (isSame(statSync(`${this.#path}-wal`, { throwIfNoEntry: false }), this.#wal)) {
      setAside(this.#path, ['-wal', '-shm']);
      this.#wal = undefined;
    }
    const what = found === undefined ? 'removed' : 'replaced by another file';
    return `${this.#name} was ${what} while lineside was running`;
  }

  /** SQLite carries what the open write-ahead log holds into the main file, and begins another. */
  #renewWal(): void {
    this.#connection.pragma('main.journal_mode = DELETE');
    this.#connection.pragma('main.journal_mode = WAL');
    this.#wal = this.#identifyWal();
    this.#mainBytes = statSync(this.#path).size;
  }

  #identifyWal(): Stats | undefined {
    // SQLite opens it with the first read.
    this.#connection.prepare('SELECT count(*) FROM sqlite_schema').get();
    return statSync(`${this.#path}-wal`, { throwIfNoEntry: false });
  }
}

function isSame(one: Stats | undefined, other: Stats | undefined): boolean {
  return one?.ino === other?.ino && one?.dev === other?.dev;
}
