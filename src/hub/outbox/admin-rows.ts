/** The SQL of dead letters and audit records, for those who look after the outbox. */
import type { Instant } from '../../shared/base/instant.ts';
import type { Connection } from '../../shared/storage/open.ts';
import type { Action, Scope } from './event.ts';

export interface DeadRow {
  readonly id: number;
  readonly diedAt: Instant;
  readonly attempts: number;
  readonly reason: string;
  readonly scope: Scope;
  readonly dictionary: string;
  readonly businessKey: string;
  readonly action: Action;
  readonly txTime: Instant;
  readonly body: string;
}

export interface AuditRow {
  readonly id: number;
  readonly at: Instant;
  readonly actor: string;
  readonly action: string;
  readonly subject: string;
  readonly details: string;
}

const deadColumns = `outbox_id AS id, died_at AS diedAt, dead_letters.attempts, reason, scope, dictionary,
  business_key AS businessKey, action, tx_time AS txTime, body FROM dead_letters JOIN outbox_events ON id = outbox_id`;

export class AdminRows {
  readonly #count;
  readonly #dead;
  readonly #deadOne;
  readonly #bury;
  readonly #requeue;
  readonly #audit;
  readonly #auditOf;

  constructor(connection: Connection) {
    this.#count = connection.prepare<[], number>('SELECT count(*) FROM dead_letters').pluck();
    this.#dead = connection.prepare<[number, number], DeadRow>(
      `SELECT ${deadColumns} WHERE outbox_id > ? ORDER BY outbox_id LIMIT ?`,
    );
    this.#deadOne = connection.prepare<[number], DeadRow>(`SELECT ${deadColumns} WHERE outbox_id = ?`);
    this.#bury = connection.prepare<[number]>('DELETE FROM dead_letters WHERE outbox_id = ?');
    this.#requeue = connection.prepare<[number]>(
      "INSERT INTO outbox_waiting (id, attempts, last_error) VALUES (?, 0, '')",
    );
    const audit = 'SELECT id, at, actor, action, subject, details FROM audit WHERE id < ?';
    this.#audit = connection.prepare<[number, number], AuditRow>(`${audit} ORDER BY id DESC LIMIT ?`);
    this.#auditOf = connection.prepare<[number, string, number], AuditRow>(
      `${audit} AND action = ? ORDER BY id DESC LIMIT ?`,
    );
  }

  countDead(): number {
    return this.#count.get() ?? 0;
  }

  /** Oldest first. */
  dead(after: number, limit: number): readonly DeadRow[] {
    return this.#dead.all(after, limit);
  }

  deadOne(id: number): DeadRow | undefined {
    return this.#deadOne.get(id);
  }

  bury(id: number): void {
    this.#bury.run(id);
  }

  waitAgain(id: number): void {
    this.#requeue.run(id);
  }

  /** Newest first. */
  audit(action: string | undefined, before: number, limit: number): readonly AuditRow[] {
    return action === undefined ? this.#audit.all(before, limit) : this.#auditOf.all(before, action, limit);
  }
}
