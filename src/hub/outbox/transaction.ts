/**
 * Writing refdata.db: the write slot that only one writer has at a time, one transaction (the stamp, what the rules write, its
 * outbox rows, its audit), and the SQL of the outbox's tables inside it.
 */
import { randomUUID } from 'node:crypto';
import type { Clock } from '../../shared/base/clock.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { type Instant, instantAfter, instantOfMs } from '../../shared/base/instant.ts';
import type { Connection } from '../../shared/storage/open.ts';
import { type Author, categoryOf, envelopeOf, type OutboxEvent, type Stamp } from './event.ts';

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
      // SQLite has rolled back automatically after some failures (a full disk, an I/O error).
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

/** Audit records that are kept; 100,000 are about 30 MB. */
const auditKept = 100_000;
/** The surplus goes in steps of this many, with the insert that makes it. */
const auditStep = 100;

export interface Progress {
  readonly storeId: string;
  readonly lastTxTime: Instant;
  readonly lastOutboxId: number;
}

/** last_tx_time of a file in which nothing has happened yet: before any clock's time. */
const never: Instant = '0001-01-01T00:00:00+00:00';

export class OutboxRows {
  readonly #sql: ReturnType<typeof statements>;

  constructor(connection: Connection) {
    this.#sql = statements(connection);
  }

  /** undefined: this file is not begun. */
  progress(): Progress | undefined {
    return this.#sql.progress.get();
  }

  advance(txTime: Instant, lastOutboxId: number): void {
    this.#sql.advance.run(txTime, lastOutboxId);
  }

  /** Answers the size of what was stored, in characters. Definitions and drafts wait for no topic. */
  insert(id: number, event: OutboxEvent, stamp: Stamp): number {
    const body = envelopeOf(event, stamp);
    const [key, action] = event.kind === 'record' ? [event.businessKey, event.action] : ['', event.eventType];
    this.#sql.insert.run(id, stamp.txTime, categoryOf(event), event.scope, event.dictionary, key, action, body);
    if (event.kind === 'record') this.#sql.wait.run(id);
    return body.length;
  }

  audit(at: Instant, actor: string, action: string, subject: string, details: object): void {
    const id = Number(this.#sql.audit.run(at, actor, action, subject, JSON.stringify(details)).lastInsertRowid);
    if (id % auditStep === 0) this.#sql.forget.run(id - auditKept);
  }

  /** Rows that wait for a topic, of those behind `id`. */
  waitingAfter(id: number): number {
    return this.#sql.waitingAfter.get(id) ?? 0;
  }
}

function statements(connection: Connection) {
  return {
    progress: connection.prepare<[], Progress>(
      'SELECT store_id AS storeId, last_tx_time AS lastTxTime, last_outbox_id AS lastOutboxId FROM progress',
    ),
    advance: connection.prepare<[Instant, number]>('UPDATE progress SET last_tx_time = ?, last_outbox_id = ?'),
    insert: connection.prepare<[number, Instant, string, string, string, string, string, string]>(
      `INSERT INTO outbox_events (id, tx_time, category, scope, dictionary, business_key, action, body)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
    wait: connection.prepare<[number]>("INSERT INTO outbox_waiting (id, attempts, last_error) VALUES (?, 0, '')"),
    audit: connection.prepare<[Instant, string, string, string, string]>(
      'INSERT INTO audit (at, actor, action, subject, details) VALUES (?, ?, ?, ?, ?)',
    ),
    forget: connection.prepare<[number]>('DELETE FROM audit WHERE id <= ?'),
    waitingAfter: connection.prepare<[number], number>('SELECT count(*) FROM outbox_waiting WHERE id > ?').pluck(),
  };
}

/** The one row of progress, if the file has none yet. */
export function beginProgress(connection: Connection): void {
  connection
    .prepare('INSERT OR IGNORE INTO progress (one, store_id, last_tx_time, last_outbox_id) VALUES (1, ?, ?, 0)')
    .run(randomUUID(), never);
}

/**
 * A store that resumes from an earlier state numbers new events as it numbered others before: under the old name, receivers
 * that drop what they have seen would drop new events. Under a new one they get again what was waiting in that state.
 */
export function renewStoreId(connection: Connection): void {
  connection.prepare('UPDATE progress SET store_id = ?').run(randomUUID());
}

/** Changes that may wait for an import: a slow card does some 100 a second, so these are 10 s of a busy device. */
const waitLimit = 1_000;

interface Waiting {
  start(): void;
  refuse(reason: LinesideError): void;
}

export class WriteSlot {
  #queue: Waiting[] = [];
  #busy = false;
  #closed = false;
  #idle: (() => void) | undefined;

  /** Changes that wait for their turn. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** A transaction or an import writes. */
  get isBusy(): boolean {
    return this.#busy;
  }

  /** Runs `work` at once, or when its turn comes. `limited`: refused with TOO_MANY when the queue is full. */
  run<T>(limited: boolean, work: () => T): Promise<T> {
    return this.#enter(limited, (release) => {
      try {
        return Promise.resolve(work());
      } catch (error) {
        return Promise.reject(error instanceof Error ? error : new Error(String(error)));
      } finally {
        release();
      }
    });
  }

  /** The slot is kept until what `work` returned is settled. */
  hold<T>(work: () => Promise<T>): Promise<T> {
    return this.#enter(true, async (release) => {
      try {
        return await work();
      } finally {
        release();
      }
    });
  }

  /** Refuses what waits and what comes; resolves when the slot is free. */
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
    // A turn each: a thousand commits in one would hold the loop for seconds on a slow card.
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

function closing(): LinesideError {
  return new LinesideError('SHUTTING_DOWN', 'refdata.db is being closed');
}

function tooMany(): LinesideError {
  return new LinesideError('TOO_MANY', `${waitLimit} changes wait already for an import to end`, {
    hint: 'Try again when the import has ended.',
  });
}
