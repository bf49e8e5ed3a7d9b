/**
 * Checkpoints the write-ahead log of refdata.db between commits: a checkpoint that fails (a full disk) costs no change, because
 * committed changes are safe in the write-ahead log.
 */
import { statSync } from 'node:fs';
import { messageOf } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import type { DatabaseFiles } from '../../shared/storage/database-files.ts';

/** A larger log saves few writes and takes longer to recover; SQLite's default is about the same. */
export const walLimitBytes = 4 * 1024 * 1024;
/** Pages of a change besides its data: leaves and indexes of five tables (measured: 5 to 8). */
const commitPages = 8;

export class Checkpoints {
  readonly #files: DatabaseFiles;
  readonly #walPath: string;
  readonly #logger: Logger;
  #walBytes = 0;
  /** The size of the log's file when it was last measured. */
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
    this.#walBytes += commitPages * this.#files.pageSize + size;
    // Commits without a pause leave no turn for the checkpoint below.
    if (this.#walBytes > 4 * walLimitBytes) this.#run('PASSIVE');
    if (this.#walBytes < walLimitBytes || this.#asked) return;
    this.#asked = true;
    // The caller of a commit does not wait for it.
    setImmediate(() => {
      this.#asked = false;
      if (!this.#closed) this.#run('PASSIVE');
    });
  }

  /**
   * Called after each transaction of unknown size (bodies kept for review, answers, removals are some MiB each): the growth of
   * the file is measured.
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
      // Retried after the next commit.
      if (!this.#failed)
        this.#logger.warn('the write-ahead log could not be checkpointed', { error: messageOf(error) });
      this.#failed = true;
    }
  }
}

/** 0 also if the disk fails: the transaction is committed all the same. */
function sizeOf(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}
