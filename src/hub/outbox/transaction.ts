/** One change: the stamp, what the rules write, its outbox rows, its audit, all in one transaction of one connection. */
import type { Clock } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { type Instant, instantAfter, instantOfMs } from '../../shared/base/instant.ts';
import type { Connection } from '../../shared/storage/open.ts';
import type { Author, OutboxEvent, Stamp } from './event.ts';
import { OutboxRows } from './rows.ts';

/** What a transaction's function is given. */
export interface Change {
  readonly connection: Connection;
  readonly stamp: Stamp;
  /** Adds the event's outbox row to the transaction; answers its id. */
  emit(event: OutboxEvent): number;
  /** Adds an audit record to the transaction. `subject`: what was acted on, in words. */
  audit(action: string, subject: string, details: object): void;
}

export interface Committed<T> {
  readonly result: T;
  readonly txTime: Instant;
  readonly lastOutboxId: number;
  /** Outbox rows added. */
  readonly rows: number;
  /** Those of them that wait for a topic. */
  readonly waiting: number;
  /** Characters stored in outbox rows. */
  readonly size: number;
}

export class Transactions {
  readonly rows: OutboxRows;
  readonly #connection: Connection;
  readonly #clock: Clock;
  readonly #begin;
  readonly #commit;
  readonly #rollback;

  constructor(connection: Connection, clock: Clock) {
    this.#connection = connection;
    this.#clock = clock;
    this.rows = new OutboxRows(connection);
    this.#begin = connection.prepare('BEGIN IMMEDIATE');
    this.#commit = connection.prepare('COMMIT');
    this.#rollback = connection.prepare('ROLLBACK');
  }

  /** A write transaction without a stamp. Throws what `work` throws and SQLite's own errors, after rolling back. */
  run<T>(work: () => T): T {
    let isComplete = false;
    this.#begin.run();
    try {
      const result = work();
      isComplete = true;
      this.#commit.run();
      return result;
    } catch (error) {
      // SQLite has rolled back by itself after some failures (a full disk, an I/O error).
      if (this.#connection.inTransaction) this.#rollback.run();
      if (isComplete) this.#overwriteFailedCommit();
      throw error;
    }
  }

  /**
   * A commit that fails in its fsync lies whole in the write-ahead log: no reader sees it, but a process that opens the file after a
   * kill would take it for committed. The next transaction's pages take its place, here one that only moves the last time
   * on by a microsecond (SQLite writes nothing where nothing changes).
   */
  #overwriteFailedCommit(): void {
    try {
      this.#begin.run();
      const last = this.rows.progress();
      if (last !== undefined) this.rows.advance(instantAfter(last.lastTxTime, 0), last.lastOutboxId);
      this.#commit.run();
    } catch {
      // Its fsync may fail as well: what was written is in its place all the same.
      if (this.#connection.inTransaction) this.#rollback.run();
    }
  }

  /** All of `work` or nothing, with the stamp that follows the last one. */
  change<T>(author: Author, work: (change: Change) => T): Committed<T> {
    return this.run(() => {
      const last = this.rows.progress();
      if (last === undefined) throw new LinesideError('STORAGE_DAMAGED', 'refdata.db has lost its progress row');
      const wallMs = this.#clock.wallMs();
      const txTime = instantAfter(last.lastTxTime, wallMs);
      const { changedBy, changeReason } = author;
      const stamp: Stamp = { changedBy, changeReason, txTime, occurredAt: instantOfMs(wallMs) };
      let id = last.lastOutboxId;
      let waiting = 0;
      let size = 0;
      const result = work({
        connection: this.#connection,
        stamp,
        emit: (event) => {
          size += this.rows.insert(++id, event, stamp);
          if (event.kind === 'record') waiting++;
          return id;
        },
        audit: (action, subject, details) => this.rows.audit(txTime, changedBy, action, subject, details),
      });
      this.rows.advance(txTime, id);
      return { result, txTime, lastOutboxId: id, rows: id - last.lastOutboxId, waiting, size };
    });
  }
}
