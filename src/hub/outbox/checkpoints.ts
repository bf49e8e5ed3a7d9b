/**
 * Carries the write-ahead log of refdata.db over into the file, between commits and never inside one: a checkpoint that
 * fails (a full disk) costs no change, since what was committed is safe in the write-ahead log.
 */
import { statSync } from 'node:fs';
import { messageOf } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import type { DatabaseFiles } from '../../shared/storage/database-files.ts';

/** Larger saves few writes and costs as much longer to recover; SQLite's own default is about the same. */
export const walLimitBytes = 4 * 1024 * 1024;
/** Pages of a change besides its texts: progress, leaves and indexes of five tables (measured: 6 to 9 pages of 4 KiB). */
const commitBytes = 32 * 1024;
/** A text is in the record's version, in the outbox row, and in the row again when it is marked. */
const copies = 3;

export class Checkpoints {
  readonly #files: DatabaseFiles;
  readonly #walPath: string;
  readonly #logger: Logger;
  #walBytes = 0;
  /** Of the write-ahead log's file when it was last measured. */
  #fileBytes = 0;
  #asked = false;
  #failed = false;
  #closed = false;

  constructor(files: DatabaseFiles, walPath: string, logger: Logger) {
    this.#files = files;
    this.#walPath = walPath;
    this.#logger = logger;
  }

  /** Called after each commit, with the characters it stored. */
  committed(size: number): void {
    this.#walBytes += commitBytes + copies * size;
    // Commits that come without a pause leave no moment after an answer.
    if (this.#walBytes > 4 * walLimitBytes) this.#run('PASSIVE');
    if (this.#walBytes < walLimitBytes || this.#asked) return;
    this.#asked = true;
    // After the answer: nothing the caller of a commit waits for.
    setImmediate(() => {
      this.#asked = false;
      if (!this.#closed) this.#run('PASSIVE');
    });
  }

  /**
   * Notified of each transaction whose bytes are not known: bodies kept for review, answers, removals are some MiB each.
   * The file says it, once it is longer than what SQLite leaves of it for the next round.
   */
  maintained(): void {
    const before = this.#fileBytes;
    this.#fileBytes = sizeOf(this.#walPath);
    this.#walBytes += Math.max(0, this.#fileBytes - before);
    this.committed(0);
  }

  close(): void {
    this.#closed = true;
    this.#run('TRUNCATE');
  }

  #run(mode: 'PASSIVE' | 'TRUNCATE'): void {
    try {
      this.#files.checkpoint(mode);
      this.#walBytes = 0;
      this.#failed = false;
    } catch (error) {
      // Tried again after the next commit.
      if (!this.#failed)
        this.#logger.warn('the write-ahead log could not be checkpointed', { error: messageOf(error) });
      this.#failed = true;
    }
  }
}

/** 0 also if the disk fails: the transaction is committed, whatever happens when its file is measured. */
function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}
