/**
 * refdata.db from the import worker: one synchronous transaction at a time on a connection of its own, by the same rules
 * for stamps, events and audit, while the main thread holds the write slot for it (ChangeStore.hold).
 */
import type { Clock } from '../../shared/base/clock.ts';
import { type Connection, closeQuietly, openExisting } from '../../shared/storage/open.ts';
import { limitPages } from './budget.ts';
import { walLimitBytes } from './checkpoints.ts';
import type { Author } from './event.ts';
import { storageError } from './storage-errors.ts';
import { type Change, Transactions } from './transaction.ts';

export interface ImportConnectionOptions {
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
