/** Writing refdata.db: the write slot for one writer at a time, a transaction with its stamp, and the SQL of the outbox's tables. */
import { randomUUID } from 'node:crypto';
import type { Clock } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { type Instant, instantAfter, instantOfMs } from '../../shared/base/instant.ts';
import type { Connection } from '../../shared/storage/open.ts';
import {
  type Author,
  type Category,
  categoryOf,
  type OutboxEvent,
  type Scope,
  type Stamp,
  storedBody,
} from './event.ts';

export interface Change {
  readonly connection: Connection;
  readonly stamp: Stamp;
  /** Adds the event's outbox row; returns its id. */
  emit(event: OutboxEvent): number;
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
  /** Characters stored of records and events. */
  readonly size: number;
}

export interface Requested {
  readonly author: Author;
  readonly work: (change: Change) => unknown;
}

export class Transactions {
  readonly sql: ReturnType<typeof statements>;
  readonly #connection: Connection;
  readonly #clock: Clock;
  readonly #begin;
  readonly #commit;
  readonly #rollback;
  readonly #savepoint;
  readonly #release;
  readonly #rollbackTo;

  constructor(connection: Connection, clock: Clock) {
    this.#connection = connection;
    this.#clock = clock;
    this.sql = statements(connection);
    this.#begin = connection.prepare('BEGIN IMMEDIATE');
    this.#commit = connection.prepare('COMMIT');
    this.#rollback = connection.prepare('ROLLBACK');
    this.#savepoint = connection.prepare('SAVEPOINT change');
    this.#release = connection.prepare('RELEASE change');
    this.#rollbackTo = connection.prepare('ROLLBACK TO change');
  }

  /** A transaction without a stamp. Throws what `work` throws and SQLite's errors, after rolling back. */
  run<T>(work: () => T): T {
    let isComplete = false;
    this.#begin.run();
    try {
      const result = work();
      isComplete = true;
      this.#commit.run();
      return result;
    } catch (error) {
      // SQLite has rolled back automatically after some failures (a full disk, an I/O error).
      if (this.#connection.inTransaction) this.#rollback.run();
      if (isComplete) this.#overwriteFailedCommit();
      throw error;
    }
  }

  /**
   * A commit that fails in its fsync is whole in the write-ahead log: no reader sees it, but after a kill the next process would
   * read it as committed. The next transaction overwrites it: here one that only advances the last time by a microsecond (SQLite
   * writes nothing if nothing changes).
   */
  #overwriteFailedCommit(): void {
    try {
      this.#begin.run();
      const last = this.sql.progress.get();
      if (last !== undefined) this.sql.advance.run(instantAfter(last.lastTxTime, 0), last.lastOutboxId);
      this.#commit.run();
    } catch {
      // Its fsync may fail as well: the failed commit is overwritten all the same.
      if (this.#connection.inTransaction) this.#rollback.run();
    }
  }

  change<T>(author: Author, work: (change: Change) => T): Committed<T> {
    return this.run(() => this.#change(author, work));
  }

  /**
   * Several changes in one transaction, each with a time of its own: one that throws leaves nothing, and the others stay. None is
   * begun after `untilMs` (monotonic) except the first: the answer may be shorter. Throws if the commit fails. undefined: SQLite
   * has rolled all of them back because of one (a full disk, an I/O error).
   */
  together(
    changes: readonly Requested[],
    untilMs: number,
  ): readonly (Committed<unknown> | { readonly thrown: unknown })[] | undefined {
    let isRolledBack = false;
    try {
      return this.run(() =>
        changes.flatMap(({ author, work }, n) => {
          if (n > 0 && this.#clock.monoMs() >= untilMs) return [];
          this.#savepoint.run();
          try {
            const committed = this.#change(author, work);
            this.#release.run();
            return committed;
          } catch (thrown) {
            isRolledBack = !this.#connection.inTransaction;
            if (isRolledBack) throw thrown;
            this.#rollbackTo.run();
            this.#release.run();
            return { thrown };
          }
        }),
      );
    } catch (error) {
      if (isRolledBack) return undefined;
      throw error;
    }
  }

  /** In a transaction. */
  #change<T>(author: Author, work: (change: Change) => T): Committed<T> {
    const last = this.sql.progress.get();
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
        size += this.insert(++id, event, stamp);
        if (event.kind === 'record') waiting++;
        return id;
      },
      audit: (action, subject, details) => this.audit(txTime, changedBy, action, subject, details),
    });
    // Also without an event the next transaction must have a later time.
    if (id === last.lastOutboxId) this.sql.advance.run(txTime, id);
    return { result, txTime, lastOutboxId: id, rows: id - last.lastOutboxId, waiting, size };
  }

  /** Returns the characters stored, of the record's version too. Definitions and drafts wait for no topic. */
  insert(id: number, event: OutboxEvent, stamp: Stamp): number {
    const { txTime } = stamp;
    const { scope, dictionary, eventType } = event;
    const body = storedBody(event, stamp);
    const common = [id, txTime, categoryOf(event), scope, dictionary, eventType, body] as const;
    const occurredAt = stamp.occurredAt === txTime ? null : stamp.occurredAt;
    if (event.kind === 'definition') {
      this.sql.insert.run(...common, occurredAt, '', eventType, null);
      return body.length;
    }
    this.sql.insert.run(...common, occurredAt, event.businessKey, event.action, event.versionId);
    this.sql.wait.run(id);
    return body.length + event.dataChars;
  }

  audit(at: Instant, actor: string, action: string, subject: string, details: object): void {
    const id = Number(this.sql.audit.run(at, actor, action, subject, JSON.stringify(details)).lastInsertRowid);
    if (id % auditStep === 0) this.sql.forget.run(id - auditKept);
  }
}

/** About 30 MB. */
const auditKept = 100_000;
/** The surplus is removed in steps of this many. */
const auditStep = 100;

interface Progress {
  readonly storeId: string;
  readonly lastTxTime: Instant;
  readonly lastOutboxId: number;
}

/** last_tx_time of a new file: before any clock's time. */
const never: Instant = '0001-01-01T00:00:00+00:00';

/** SQL, of the row of progress: the newest event that there ever was. */
export const lastOutboxId = 'max(last_outbox_id, coalesce((SELECT max(id) FROM outbox_events), 0))';

function statements(connection: Connection) {
  return {
    /** Of all transactions, also those whose events were removed. None: a new file. */
    progress: connection.prepare<[], Progress>(
      `SELECT store_id AS storeId, ${lastOutboxId} AS lastOutboxId,
         max(last_tx_time, coalesce((SELECT tx_time FROM outbox_events ORDER BY id DESC LIMIT 1), '')) AS lastTxTime
       FROM progress`,
    ),
    advance: connection.prepare<[Instant, number]>('UPDATE progress SET last_tx_time = ?, last_outbox_id = ?'),
    insert: connection.prepare<
      [number, Instant, Category, Scope, string, string, string, Instant | null, string, string, number | null]
    >(
      `INSERT INTO outbox_events
         (id, tx_time, category, scope, dictionary, event_type, body, occurred_at, business_key, action, version_id)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    wait: connection.prepare<[number]>("INSERT INTO outbox_waiting (id, attempts, last_error) VALUES (?, 0, '')"),
    audit: connection.prepare<[Instant, string, string, string, string]>(
      'INSERT INTO audit (at, actor, action, subject, details) VALUES (?, ?, ?, ?, ?)',
    ),
    forget: connection.prepare<[number]>('DELETE FROM audit WHERE id <= ?'),
    /** Rows behind an id that wait for a topic. */
    waitingAfter: connection.prepare<[number], number>('SELECT count(*) FROM outbox_waiting WHERE id > ?').pluck(),
  };
}

/** Inserts the one row of progress into a new file. */
export function beginProgress(connection: Connection): void {
  connection
    .prepare('INSERT OR IGNORE INTO progress (one, store_id, last_tx_time, last_outbox_id) VALUES (1, ?, ?, 0)')
    .run(randomUUID(), never);
}

/**
 * A store that was restored numbers new events as it numbered others before: under the old id, receivers that drop duplicates
 * would drop new events. Under a new id they receive again what waited in the restored state.
 */
export function renewStoreId(connection: Connection): void {
  connection.prepare('UPDATE progress SET store_id = ?').run(randomUUID());
}

/** Changes that may wait for an import: a slow card commits about 100 a second, so these take 10 s. */
export const waitLimit = 1_000;

interface Waiting {
  start(): void;
  refuse(reason: LinesideError): void;
}

export class WriteSlot {
  #queue: Waiting[] = [];
  #busy = false;
  #closed = false;
  #idle: (() => void) | undefined;

  get waiting(): number {
    return this.#queue.length;
  }

  get isBusy(): boolean {
    return this.#busy;
  }

  /** `limited`: refused with TOO_MANY when the queue is full. */
  run<T>(work: () => T, limited?: 'limited'): Promise<T> {
    return this.#enter(limited !== undefined, (release) => {
      try {
        return Promise.resolve(work());
      } catch (error) {
        return Promise.reject(error instanceof Error ? error : new Error(String(error)));
      } finally {
        release();
      }
    });
  }

  /** Keeps the slot until the promise of `work` is settled. Rejects with TOO_MANY when the queue is full. */
  hold<T>(work: () => Promise<T>): Promise<T> {
    return this.#enter(true, async (release) => {
      try {
        return await work();
      } finally {
        release();
      }
    });
  }

  /** Refuses waiting and later work; resolves when the slot is free. */
  close(): Promise<void> {
    this.#closed = true;
    for (const waiting of this.#queue.splice(0)) waiting.refuse(closing());
    if (!this.#busy) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle = resolve;
    });
  }

  #enter<T>(limited: boolean, begin: (release: () => void) => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(closing());
    if (!this.#busy && this.#queue.length === 0) {
      this.#busy = true;
      return begin(() => this.#release());
    }
    if (limited && this.#queue.length >= waitLimit) return Promise.reject(tooMany());
    return new Promise((resolve, reject) => {
      this.#queue.push({ start: () => resolve(begin(() => this.#release())), refuse: reject });
    });
  }

  #release(): void {
    this.#busy = false;
    if (this.#closed) this.#idle?.();
    // One each turn: a thousand commits would block the event loop for seconds on a slow card.
    if (this.#queue.length > 0) setImmediate(() => this.#startNext());
  }

  #startNext(): void {
    if (this.#busy) return;
    const next = this.#queue.shift();
    if (next === undefined) return;
    this.#busy = true;
    next.start();
  }
}

export function closing(): LinesideError {
  return new LinesideError('SHUTTING_DOWN', 'refdata.db is being closed');
}

export function tooMany(): LinesideError {
  return new LinesideError('TOO_MANY', `${waitLimit} changes already wait for an import to complete`, {
    hint: 'Try again when the import is complete.',
  });
}
