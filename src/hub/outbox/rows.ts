/** The SQL of the outbox's tables inside a change's transaction. Statements are prepared once for a connection. */
import { randomUUID } from 'node:crypto';
import type { Instant } from '../../shared/base/instant.ts';
import type { Connection } from '../../shared/storage/open.ts';
import { categoryOf, envelopeOf } from './envelope.ts';
import type { OutboxEvent, Stamp } from './event.ts';

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
  readonly #progress;
  readonly #advance;
  readonly #insert;
  readonly #wait;
  readonly #audit;
  readonly #forget;
  readonly #waitingAfter;

  constructor(connection: Connection) {
    this.#progress = connection.prepare<[], Progress>(
      'SELECT store_id AS storeId, last_tx_time AS lastTxTime, last_outbox_id AS lastOutboxId FROM progress',
    );
    this.#advance = connection.prepare<[Instant, number]>('UPDATE progress SET last_tx_time = ?, last_outbox_id = ?');
    this.#insert = connection.prepare<[number, Instant, string, string, string, string, string, string]>(
      `INSERT INTO outbox_events (id, tx_time, category, scope, dictionary, business_key, action, body)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#wait = connection.prepare<[number]>(
      "INSERT INTO outbox_waiting (id, attempts, last_error) VALUES (?, 0, '')",
    );
    this.#audit = connection.prepare<[Instant, string, string, string, string]>(
      'INSERT INTO audit (at, actor, action, subject, details) VALUES (?, ?, ?, ?, ?)',
    );
    this.#forget = connection.prepare<[number]>('DELETE FROM audit WHERE id <= ?');
    this.#waitingAfter = connection
      .prepare<[number], number>('SELECT count(*) FROM outbox_waiting WHERE id > ?')
      .pluck();
  }

  /** undefined: this file is not begun. */
  progress(): Progress | undefined {
    return this.#progress.get();
  }

  advance(txTime: Instant, lastOutboxId: number): void {
    this.#advance.run(txTime, lastOutboxId);
  }

  /** Answers the size of what was stored, in characters. Definitions and drafts wait for no topic. */
  insert(id: number, event: OutboxEvent, stamp: Stamp): number {
    const body = envelopeOf(event, stamp);
    const [key, action] = event.kind === 'record' ? [event.businessKey, event.action] : ['', event.eventType];
    this.#insert.run(id, stamp.txTime, categoryOf(event), event.scope, event.dictionary, key, action, body);
    if (event.kind === 'record') this.#wait.run(id);
    return body.length;
  }

  audit(at: Instant, actor: string, action: string, subject: string, details: object): void {
    const id = Number(this.#audit.run(at, actor, action, subject, JSON.stringify(details)).lastInsertRowid);
    if (id % auditStep === 0) this.#forget.run(id - auditKept);
  }

  /** Rows that wait for a topic, of those behind `id`. */
  waitingAfter(id: number): number {
    return this.#waitingAfter.get(id) ?? 0;
  }
}

/** The one row of progress, where the file has none yet. */
export function beginProgress(connection: Connection): void {
  connection
    .prepare('INSERT OR IGNORE INTO progress (one, store_id, last_tx_time, last_outbox_id) VALUES (1, ?, ?, 0)')
    .run(randomUUID(), never);
}
