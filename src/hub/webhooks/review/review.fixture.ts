/** Deliveries in a real refdata.db, as planner and dispatcher leave them, for the tests of review and retention. */

import type { TestContext } from 'node:test';
import { deflateSync } from 'node:zlib';
import { instantOfMs } from '../../../shared/base/instant.ts';
import { type TemporaryStore, temporaryStore } from '../../outbox/change-store.fixture.ts';
import type { ChangeStore } from '../../outbox/change-store.ts';
import { BodySource } from '../delivery/body-source.ts';
import { FakeCache, runningOn } from '../delivery/planner.fixture.ts';
import type { DeliveryState, WebhookAdmin } from '../face.ts';
import type { RunningTime } from '../progress.ts';
import { Resend, type ResendOptions } from './resend.ts';
import { Review, type ReviewOptions } from './review.ts';

export interface ReviewRig extends TemporaryStore {
  readonly cache: FakeCache;
  readonly running: RunningTime;
  readonly bodies: BodySource;
  readonly review: ReviewAdmin;
  /** Another one, with statements of its own. */
  readonly again: () => ReviewAdmin;
  /** Subscriptions the dispatcher was told of. */
  readonly told: number[];
  /** First events that were said to be needed again. */
  readonly needed: number[];
}

export type ReviewAdmin = Pick<WebhookAdmin, 'deliveries' | 'delivery' | 'resend' | 'resendAll'>;

/** As webhooks.ts puts it together. */
export function reviewAdmin(options: ReviewOptions & Omit<ResendOptions, 'review'>): ReviewAdmin {
  const review = new Review(options);
  const resend = new Resend({ ...options, review });
  return {
    deliveries: (query) => review.deliveries(query),
    delivery: (caller, id) => review.delivery(caller, id),
    resend: (...args) => resend.resend(...args),
    resendAll: (...args) => resend.resendAll(...args),
  };
}

export function reviewRig(t: TestContext): ReviewRig {
  const temporary = temporaryStore(t);
  const { store, clock } = temporary;
  const cache = new FakeCache();
  const running = runningOn(store, clock);
  const bodies = new BodySource(store.connection);
  const [told, needed]: [number[], number[]] = [[], []];
  const again = (): ReviewAdmin =>
    reviewAdmin({
      store,
      cache,
      bodies,
      running,
      dispatcher: { resent: (id) => told.push(id) },
      retained: { retainFrom: (firstEvent) => needed.push(firstEvent) },
    });
  return { ...temporary, cache, running, bodies, review: again(), again, told, needed };
}

interface Stored {
  readonly subscription: number;
  readonly template: number;
  readonly state: DeliveryState;
  readonly count: number;
  readonly occurredAt: string;
  readonly endedRunMs: number;
  readonly attempts: number;
  readonly firstEvent: number;
}

/** So many alike, of no events that are kept; answers their ids. */
export function put(connection: ChangeStore['connection'], changes: Partial<Stored> = {}): readonly number[] {
  const row: Stored = {
    subscription: 1,
    template: 1,
    state: 'delivered',
    count: 1,
    occurredAt: instantOfMs(1_700_000_000_000),
    endedRunMs: 0,
    attempts: 1,
    firstEvent: 1,
    ...changes,
  };
  const ended = row.state !== 'pending' && row.state !== 'retrying';
  const before = newestIn(connection);
  connection
    .prepare(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $count)
       INSERT INTO webhook_deliveries (nonce, subscription_id, form_id, first_event, last_event, events, occurred_at,
         state, attempts, attempts_before, due_run_ms, ended_at, ended_run_ms)
       SELECT printf('%016x', i), $subscription, $template, $firstEvent, $firstEvent, 1, $occurredAt, $state, $attempts, 0, 0,
         iif($ended, $occurredAt, NULL), iif($ended, $endedRunMs, NULL) FROM n`,
    )
    .run({ ...row, ended: ended ? 1 : 0 });
  return Array.from({ length: newestIn(connection) - before }, (_, n) => before + 1 + n);
}

function newestIn(connection: ChangeStore['connection']): number {
  return Number(
    connection.prepare("SELECT seq FROM sqlite_sequence WHERE name = 'webhook_deliveries'").pluck().get() ?? 0,
  );
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

export function freeze(connection: ChangeStore['connection'], id: number, body: string): void {
  connection
    .prepare('INSERT INTO webhook_bodies (delivery_id, body) VALUES (?, ?)')
    .run(id, deflateSync(Buffer.from(body)));
}

/** In one transaction. */
export function freezeAll(connection: ChangeStore['connection'], ids: readonly number[]): void {
  connection.transaction(() => {
    for (const id of ids) freeze(connection, id, '{}');
  })();
}

/** A subscription's row, as retention looks at it. */
export function subscriptionRow(
  connection: ChangeStore['connection'],
  id: number,
  { deleted = false, template = id }: { readonly deleted?: boolean; readonly template?: number } = {},
): void {
  connection
    .prepare(
      `INSERT OR REPLACE INTO webhook_subscriptions (id, name, url, consumer, scopes, active, version, created_at,
         updated_at, form_id, after_event, secret, deleted) VALUES (?, 'erp', 'https://x', 'local', '["PUBLIC"]', 1, 1,
         '', '', ?, 0, x'00', ?)`,
    )
    .run(id, template, deleted ? 1 : 0);
  formRow(connection, template, id);
}

export function formRow(connection: ChangeStore['connection'], id: number, subscription: number): void {
  connection
    .prepare(
      `INSERT OR REPLACE INTO webhook_forms (id, subscription_id, renderer, name, scopes)
       VALUES (?, ?, 1, 'erp', '["PUBLIC"]')`,
    )
    .run(id, subscription);
}

export function count(connection: ChangeStore['connection'], what: string): number {
  return Number(connection.prepare(`SELECT count(*) FROM ${what}`).pluck().get());
}

/** From now on counts the deliveries that SQLite looks at; for statements prepared afterwards, on an open connection. */
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
