/** Rows of webhooks in a real refdata.db, as planner and dispatcher leave them, and what statements read of it. */
import { instantOfMs } from '../../../shared/base/instant.ts';
import type { Audit, ChangeStore } from '../../outbox/change-store.ts';
import type { Scope } from '../../outbox/event.ts';
import type { DeliveryState } from '../face.ts';
import { Progress } from '../progress.ts';

interface Stored {
  readonly subscription: number;
  readonly name: string;
  readonly state: DeliveryState;
  readonly count: number;
  readonly occurredAt: string;
  readonly endedRunMs: number;
  readonly attempts: number;
  readonly dueRunMs: number;
  readonly scopes: readonly Scope[];
  /** JSON of its events; null: not kept any more. */
  readonly events: string | null;
}

/** So many alike, each with contents of its own; answers their ids. */
export function put(connection: ChangeStore['connection'], changes: Partial<Stored> = {}): readonly number[] {
  const row: Stored = {
    subscription: 1,
    name: `subscription ${changes.subscription ?? 1}`,
    state: 'delivered',
    count: 1,
    occurredAt: instantOfMs(1_700_000_000_000),
    endedRunMs: 0,
    attempts: 1,
    dueRunMs: 0,
    scopes: ['PUBLIC'],
    events: '{}',
    ...changes,
  };
  const ended = row.state !== 'pending' && row.state !== 'retrying';
  const before = new Progress(connection).lastDelivery();
  const counting = 'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $count)';
  const { occurredAt, count, events } = row;
  connection
    .prepare(
      `${counting} INSERT INTO webhook_contents (id, last_delivery, nonce, occurred_at, scopes, events, body)
       SELECT $before + i, $before + i, printf('%016x', i), $occurredAt, $scopes, 1, $events FROM n`,
    )
    .run({ before, occurredAt, count, events, scopes: JSON.stringify(row.scopes) });
  connection
    .prepare(
      `${counting} INSERT INTO webhook_deliveries (id, subscription_id, subscription_name, content_id, state, attempts,
         attempts_before, due_run_ms, ended_at, ended_run_ms)
       SELECT $before + i, $subscription, $name, $before + i, $state, $attempts, 0, $dueRunMs,
         iif($ended, $occurredAt, NULL), iif($ended, $endedRunMs, NULL) FROM n`,
    )
    .run({ ...row, scopes: '', before, ended: ended ? 1 : 0 });
  new Progress(connection).saveLastDelivery(before + row.count);
  return Array.from({ length: row.count }, (_, n) => before + 1 + n);
}

/** An attempt that was answered with so many bytes; 0: there is none to keep. */
export function attempt(connection: ChangeStore['connection'], id: number, number: number, answer: string): void {
  const answerId =
    answer === ''
      ? null
      : connection.prepare('INSERT INTO webhook_answers (body) VALUES (?)').run(Buffer.from(answer)).lastInsertRowid;
  connection
    .prepare(
      `INSERT INTO webhook_attempts (delivery_id, attempt, at, elapsed_ms, status, cause, message, answer_id)
       VALUES (?, ?, ?, 12, 500, 'http', 'answered 500', ?)`,
    )
    .run(id, number, instantOfMs(1_700_000_000_000), answerId);
}

export function subscriptionRow(connection: ChangeStore['connection'], id: number, isDeleted = false): void {
  connection
    .prepare(
      `INSERT OR REPLACE INTO webhook_subscriptions (id, name, url, consumer, scopes, active, version, created_at,
         updated_at, after_event, secret, deleted) VALUES (?, 'erp', 'https://x', 'local', '["PUBLIC"]', 1, 1,
         '', '', 0, x'00', ?)`,
    )
    .run(id, isDeleted ? 1 : 0);
}

export function count(connection: ChangeStore['connection'], what: string): number {
  return Number(connection.prepare(`SELECT count(*) FROM ${what}`).pluck().get());
}

/** Counts the deliveries that SQLite reads, for statements prepared afterwards. */
export function countLooks(connection: ChangeStore['connection']): { looks: number } {
  const counted = { looks: 0 };
  connection.function('seen', (_id) => {
    counted.looks++;
    return 1;
  });
  connection.exec(`ALTER TABLE webhook_deliveries RENAME TO stored_deliveries;
    CREATE VIEW webhook_deliveries AS SELECT * FROM stored_deliveries WHERE seen(id);
    CREATE TRIGGER stored_update INSTEAD OF UPDATE ON webhook_deliveries BEGIN
      UPDATE stored_deliveries SET state = new.state, attempts_before = new.attempts_before,
        due_run_ms = new.due_run_ms, ended_at = new.ended_at, ended_run_ms = new.ended_run_ms WHERE id = old.id;
    END;
    CREATE TRIGGER stored_delete INSTEAD OF DELETE ON webhook_deliveries BEGIN
      DELETE FROM stored_deliveries WHERE id = old.id;
    END`);
  return counted;
}

export interface Reads {
  statements: number;
  rows: number;
  /** The SQL of each statement that was prepared. */
  readonly prepared: string[];
}

/** What statements that are prepared from now on answer, of those whose text begins so. */
export function countReads(connection: ChangeStore['connection'], begin = ''): Reads {
  const reads: Reads = { statements: 0, rows: 0, prepared: [] };
  const prepare = connection.prepare.bind(connection);
  connection.prepare = ((sql: string) => {
    reads.prepared.push(sql);
    const statement = prepare(sql);
    if (!sql.startsWith(begin)) return statement;
    for (const method of ['all', 'get'] as const) {
      const real = statement[method].bind(statement);
      statement[method] = (...values: unknown[]) => {
        const found = real(...values);
        reads.statements += 1;
        reads.rows += Array.isArray(found) ? found.length : Number(found !== undefined);
        return found as never;
      };
    }
    return statement;
  }) as typeof prepare;
  return reads;
}

/** Before each transaction, also those that fail. */
export function beforeCommits(store: ChangeStore, call: () => void): void {
  const maintain = store.maintain.bind(store);
  store.maintain = <T>(work: (audit: Audit) => T): Promise<T> => {
    call();
    return maintain(work);
  };
}
