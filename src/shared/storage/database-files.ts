/**
 * Notices that an open database is no longer the file that its name leads to, or no longer holds what SQLite wrote: SQLite
 * continues with a file that was removed, replaced, truncated or overwritten, and each commit succeeds. Called before and after
 * each commit that a caller gets an answer for. Harm that comes after the answer is found at the next commit: the data was
 * stored when the answer said so.
 */
import { type BigIntStats, closeSync, existsSync, openSync, readSync, renameSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import { type Connection, closeQuietly } from './open.ts';

/** The file that is open is not the one that its name leads to. */
export const FILE_LOST = 'FILE_LOST';

export class FileLostError extends Error {
  readonly code = FILE_LOST;
}

/** Header of the write-ahead log's file, and of each frame beside its page. */
const walHeaderBytes = 32;
const frameHeaderBytes = 24;

/** What is compared when the main file was changed: the file's header, the schema and the first tables, with the store's id. */
const headBytes = 64 * 1024;
/** A checkpoint of another program may be in progress: SQLite counts its pages when the card has them. As long as for a lock. */
const patienceMs = 2_000;
const checkAgainMs = 10;

interface WalSizes {
  /** Frames in the write-ahead log, and those of them that are in the main file too; -1: none was written yet. */
  readonly log: number;
  readonly checkpointed: number;
}

/** The main file as it was when it was sound: a change since then is a checkpoint's, or harm. */
interface Sound {
  readonly changedNs: bigint;
  readonly head: Buffer;
  readonly walSizes: WalSizes;
  /** SQLite's number of the last state that another connection committed. */
  readonly otherCommits: number;
}

/** The write-ahead log, and then the main file: a checkpoint that is counted has written everything. */
interface Seen {
  readonly walSizes: WalSizes;
  readonly otherCommits: number;
  readonly needed: number;
  readonly main: BigIntStats | undefined;
}

export class DatabaseFiles {
  readonly #connection: Connection;
  readonly #path: string;
  readonly #name: string;
  /** Always in the head of the file; '': not known to be. */
  readonly #id: string;
  /** Bytes. */
  readonly pageSize: number;
  readonly #pageCount;
  readonly #walSizes;
  readonly #otherCommits;
  /** Stays open as long as the connection: closing any descriptor of a file releases the process's locks on that file. */
  readonly #file: number;
  readonly #main: BigIntStats;
  #wal: BigIntStats | undefined;
  /** The main file is at least this long; less where pages were given back since. */
  #mainBytes: number;
  #sound: Sound;
  #overwritten = '';

  /** For a connection that was just opened. `id`: a string that this database holds from its beginning, and no other. */
  constructor(connection: Connection, id: string) {
    this.#connection = connection;
    this.#path = connection.name;
    this.#name = basename(connection.name);
    this.pageSize = Number(connection.pragma('page_size', { simple: true }));
    this.#pageCount = connection.prepare<[], number>('PRAGMA page_count').pluck();
    this.#walSizes = connection.prepare<[], WalSizes>('PRAGMA wal_checkpoint(NOOP)');
    this.#otherCommits = connection.prepare<[], number>('PRAGMA data_version').pluck();
    this.#file = openSync(this.#path, 'r');
    this.#main = statSync(this.#path, { bigint: true });
    this.#mainBytes = Number(this.#main.size);
    this.#wal = this.#identifyWal();
    this.#sound = this.#soundNow(this.#see());
    if (!this.#sound.head.includes(id)) {
      // A new database is in its write-ahead log alone.
      connection.pragma('main.wal_checkpoint(PASSIVE)');
      this.#sound = this.#soundNow(this.#see());
    }
    this.#id = this.#sound.head.includes(id) ? id : '';
  }

  get walBytes(): number {
    return this.#bytesOf(this.#sizes().log);
  }

  /**
   * Throws FILE_LOST; a missing write-ahead log is replaced, since the open one holds all of it still. Not in a transaction.
   * Waits for another program's checkpoint when that is a possible reason for what it finds.
   */
  verify(): void {
    if (this.#overwritten !== '') throw new FileLostError(this.#overwritten);
    let seen = this.#see();
    if (this.#lossIn(seen) !== '') {
      // A change by another program's checkpoint between two checks is no loss.
      seen = this.#see();
      const found = this.#lossIn(seen);
      if (found !== '') throw new FileLostError(found);
    }
    for (let waitedMs = 0; this.#isOverwritten(seen); waitedMs += checkAgainMs) {
      if (waitedMs >= patienceMs) this.#throwOverwritten();
      Atomics.wait(new Int32Array(new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT)), 0, 0, checkAgainMs);
      seen = this.#see();
    }
  }

  /** Throws FILE_LOST instead of writing into another's file. Returns true when another program prevented a part of it. */
  checkpoint(mode: 'PASSIVE' | 'RESTART' | 'TRUNCATE'): boolean {
    this.verify();
    try {
      return Number(this.#connection.pragma(`main.wal_checkpoint(${mode})`, { simple: true })) !== 0;
    } finally {
      this.#sound = this.#soundNow(this.#see());
    }
  }

  /** Closes the connection too. SQLite would checkpoint into a file that is still in its place: not if the content is another's. */
  close(): void {
    if (!this.#connection.open) return;
    const isInPlace = isSame(statSync(this.#path, { bigint: true, throwIfNoEntry: false }), this.#main);
    const away = this.#overwritten !== '' && isInPlace ? `${this.#path}.closing` : '';
    if (away !== '') renameSync(this.#path, away);
    closeQuietly(this.#connection);
    if (away !== '') renameSync(away, this.#path);
    closeSync(this.#file);
  }

  #see(): Seen {
    const walSizes = this.#sizes();
    const otherCommits = this.#otherCommits.get() ?? 0;
    const needed = (this.#pageCount.get() ?? 0) * this.pageSize;
    return { walSizes, otherCommits, needed, main: statSync(this.#path, { bigint: true, throwIfNoEntry: false }) };
  }

  /** The loss in words; '': none. */
  #lossIn(seen: Seen): string {
    const { walSizes, needed, main } = seen;
    const { log, checkpointed } = walSizes;
    if (!isSame(main, this.#main)) return this.#mainLost(main);
    const wal = this.#statWal();
    if (!isSame(wal, this.#wal)) {
      if (!this.#isOverwritten(seen)) this.#renewWal();
      return '';
    }
    if (Number(wal?.size ?? 0) < this.#bytesOf(log))
      return `${this.#name}-wal was truncated while lineside was running`;
    this.#mainBytes = log === checkpointed ? needed : Math.min(this.#mainBytes, needed);
    return Number(main?.size ?? 0) < this.#mainBytes ? `${this.#name} was truncated while lineside was running` : '';
  }

  /**
   * The open file has content that SQLite did not write. A checkpoint shows in the sizes of the write-ahead log, or another
   * connection has committed: it may have begun the log again, and checkpointed as many frames as there were before. Any other
   * change must leave the content as it was (the file's times or permissions were set). Throws FILE_LOST when no checkpoint can
   * be the reason.
   */
  #isOverwritten(seen: Seen): boolean {
    const { changedNs, head, walSizes, otherCommits } = this.#sound;
    const now = this.#soundNow(seen, this.#sound);
    const isChanged = now.changedNs !== changedNs;
    if (isChanged && !now.head.includes(this.#id)) this.#throwOverwritten();
    const isCheckpoint =
      now.walSizes.checkpointed !== walSizes.checkpointed ||
      now.walSizes.log < walSizes.log ||
      (now.otherCommits !== otherCommits && now.walSizes.checkpointed > 0);
    const isOwn = !isChanged || isCheckpoint || now.head.equals(head);
    if (isOwn) this.#sound = now;
    return !isOwn;
  }

  /** The content is read again only when the file was changed. */
  #soundNow({ walSizes, otherCommits, main }: Seen, before?: Sound): Sound {
    const changedNs = main?.ctimeNs ?? 0n;
    if (before?.changedNs === changedNs) return { ...before, walSizes, otherCommits };
    const head = Buffer.alloc(headBytes);
    readSync(this.#file, head, 0, headBytes, 0);
    return { changedNs, head, walSizes, otherCommits };
  }

  #throwOverwritten(): never {
    this.#overwritten = `${this.#name} was overwritten while lineside was running`;
    this.#setWalAside();
    throw new FileLostError(this.#overwritten);
  }

  #sizes(): WalSizes {
    return this.#walSizes.get() ?? { log: 0, checkpointed: 0 };
  }

  #bytesOf(frames: number): number {
    return frames <= 0 ? 0 : walHeaderBytes + frames * (frameHeaderBytes + this.pageSize);
  }

  #mainLost(found: BigIntStats | undefined): string {
    this.#setWalAside();
    const what = found === undefined ? 'removed' : 'replaced by another file';
    return `${this.#name} was ${what} while lineside was running`;
  }

  /** A process that opens the other file would take this write-ahead log for that file's own. */
  #setWalAside(): void {
    if (!isSame(this.#statWal(), this.#wal)) return;
    setAside(this.#path, ['-wal', '-shm']);
    this.#wal = undefined;
  }

  /** SQLite carries what the open write-ahead log holds into the main file, and begins another. */
  #renewWal(): void {
    this.#connection.pragma('main.journal_mode = DELETE');
    this.#connection.pragma('main.journal_mode = WAL');
    this.#wal = this.#identifyWal();
    this.#mainBytes = statSync(this.#path).size;
    this.#sound = this.#soundNow(this.#see());
  }

  #identifyWal(): BigIntStats | undefined {
    // SQLite opens it with the first read.
    this.#connection.prepare('SELECT count(*) FROM sqlite_schema').get();
    return this.#statWal();
  }

  #statWal(): BigIntStats | undefined {
    return statSync(`${this.#path}-wal`, { bigint: true, throwIfNoEntry: false });
  }
}

function isSame(one: BigIntStats | undefined, other: BigIntStats | undefined): boolean {
  return one?.ino === other?.ino && one?.dev === other?.dev;
}

// A database file that cannot be used is put under another name, never deleted; its companions go with it so that it can be
// opened there.

/** The database and its companions; the main file last, so that a crash in between leaves nothing that looks new. */
export const companions = ['-wal', '-shm', ''] as const;

/**
 * Returns where the file is now; where there is none (its replacement could not be begun), where the last one is.
 * `suffixes`: the companions alone, where the main file is another database's.
 */
export function setAside(path: string, suffixes: readonly string[] = companions): string {
  const exists = (file: string): boolean => companions.some((suffix) => existsSync(file + suffix));
  let n = 1;
  while (exists(`${path}.damaged-${n}`)) n++;
  if (!suffixes.some((suffix) => existsSync(path + suffix))) return n === 1 ? '' : `${path}.damaged-${n - 1}`;
  const target = `${path}.damaged-${n}`;
  for (const suffix of suffixes) {
    if (existsSync(path + suffix)) renameSync(path + suffix, target + suffix);
  }
  return target;
}
