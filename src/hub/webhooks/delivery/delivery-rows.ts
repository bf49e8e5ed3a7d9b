/** The SQL of planning and dispatching. */
import { messageOf } from '../../../shared/base/errors.ts';
import type { Instant } from '../../../shared/base/instant.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import type { Cause, DeliveryState, WebhookStatus } from '../face.ts';
import type { RunMs } from '../progress.ts';
import type { Subscription } from '../subscriptions/subscription.ts';
import { bodyOf, type StoredBody, versionElementSql, wholeElementSql } from './contents.ts';
import type { EventHead } from './planning.ts';

export interface PendingDelivery {
  readonly id: number;
  readonly nonce: string;
  readonly subscriptionId: number;
  /** When it was planned. */
  readonly subscriptionName: string;
  readonly contentId: number;
  readonly occurredAt: Instant;
  /** JSON list: of its events. */
  readonly scopes: string;
  readonly state: DeliveryState;
  readonly attempts: number;
  readonly attemptsBefore: number;
  readonly dueRunMs: RunMs;
}

/** The columns of a PendingDelivery, and where they are. */
export const pendingColumns = `d.id, coalesce(d.nonce, c.nonce) AS nonce, subscription_id AS subscriptionId, subscription_name AS subscriptionName,
  content_id AS contentId, occurred_at AS occurredAt, scopes, state, attempts, attempts_before AS attemptsBefore,
  due_run_ms AS dueRunMs`;
export const deliveries = 'webhook_deliveries d JOIN webhook_contents c ON c.id = d.content_id';

interface Content {
  readonly nonce: string;
  /** JSON list: of its events. */
  readonly scopes: string;
  readonly events: number;
  readonly body: StoredBody | null;
}

/** Contents with a delivery for each of some subscriptions. */
export interface NewDeliveries {
  readonly content: Content;
  readonly subscriptions: readonly Pick<Subscription, 'id' | 'name'>[];
}

export interface AttemptRow {
  readonly at: Instant;
  readonly elapsedMs: number;
  readonly status: number | null;
  readonly cause: Cause | '';
  readonly message: string;
  /** Empty: not kept. */
  readonly answer: Buffer;
}

/** A delivery after an attempt. */
export interface AfterRow {
  readonly state: DeliveryState;
  readonly dueRunMs: RunMs;
  /** null: it will be retried. */
  readonly endedAt: Instant | null;
  readonly endedRunMs: RunMs | null;
}

export type Counts = Pick<WebhookStatus, 'waiting' | 'rejected' | 'failed'>;

const isWaiting = "state IN ('pending', 'retrying')";
/** Must be the same texts as in the partial indexes webhook_new and webhook_again. */
const isNew = "state = 'pending' AND attempts = 0";
const isAgain = `${isWaiting} AND attempts > 0`;
const ofLiving = 'subscription_id IN (SELECT id FROM webhook_subscriptions WHERE deleted = 0)';

export interface NextParameters {
  readonly subscriptionId: number;
  /** A JSON list of ids. */
  readonly except: string;
}

export class DeliveryRows {
  readonly sql: ReturnType<typeof statements> & ReturnType<typeof elementStatements>;

  constructor(connection: Connection) {
    this.sql = { ...statements(connection), ...elementStatements(connection) };
  }

  /** Of an outbox event. undefined: it is lost or damaged. */
  element(eventId: number): string | undefined {
    const { versionElement, wholeElement } = this.sql;
    return versionElement.get(eventId) ?? wholeElement.get(eventId) ?? undefined;
  }

  /** In a transaction. Answers the id of the last delivery. */
  insert(planned: readonly NewDeliveries[], firstId: number, occurredAt: Instant, dueRunMs: RunMs): number {
    const deliveries: (readonly [contentId: number, subscriptionId: number, subscriptionName: string])[] = [];
    for (const { content, subscriptions } of planned) {
      const id = firstId + deliveries.length;
      for (const subscription of subscriptions) deliveries.push([id, subscription.id, subscription.name]);
      this.sql.insertContent.run({ ...content, id, lastDelivery: firstId + deliveries.length - 1, occurredAt });
    }
    this.sql.insert.run(firstId, dueRunMs, JSON.stringify(deliveries));
    return firstId + deliveries.length - 1;
  }

  /** Without those of deleted subscriptions, which must be filtered row by row; else the indexes suffice. */
  counts(): Counts {
    const { waiting, anyDeleted, review, reviewOfLiving } = this.sql;
    const ended = anyDeleted.get() === 1 ? reviewOfLiving : review;
    return {
      waiting: waiting.get() ?? 0,
      rejected: ended.get('rejected') ?? 0,
      failed: ended.get('failed') ?? 0,
    };
  }

  /** The same bytes each time, or why there are none. Throws when refdata.db cannot be read at the moment. */
  bodyOf(delivery: PendingDelivery): Buffer | { readonly unavailable: string } {
    const stored = this.sql.body.get(delivery.contentId) ?? null;
    if (stored === null) return { unavailable: 'the events of this delivery are not kept any more' };
    try {
      return bodyOf(delivery, stored);
    } catch (error) {
      return { unavailable: `the body of this delivery is damaged: ${messageOf(error)}` };
    }
  }

  hasBody({ contentId }: Pick<PendingDelivery, 'contentId'>): boolean {
    return this.sql.hasBody.get(contentId) === 1;
  }

  /** In a transaction. False: the delivery is not there any more, or is not as it was when the attempt began. */
  write({ id, attempts }: Pick<PendingDelivery, 'id' | 'attempts'>, attempt: AttemptRow, after: AfterRow): boolean {
    const { update, answer, attempt: insertAttempt } = this.sql;
    if (update.run({ ...after, id, attempts }).changes === 0) return false;
    const answerId = attempt.answer.length === 0 ? null : answer.run(attempt.answer).lastInsertRowid;
    insertAttempt.run({ ...attempt, elapsedMs: Math.round(attempt.elapsedMs), id, attempt: attempts + 1, answerId });
    return true;
  }
}

/** Of an element without its data and names: 190 at most. */
const fieldBytes = 256;

function statements(connection: Connection) {
  const review = "SELECT count(*) FROM webhook_deliveries WHERE state IN ('rejected', 'failed') AND state = ?";
  return {
    heads: connection.prepare<[number, number], EventHead>(
      `SELECT e.id, e.tx_time AS txTime, scope, dictionary, category, e.action, CASE WHEN version_id IS NULL THEN octet_length(body)
         ELSE octet_length(data) + octet_length(json_quote(business_key)) + octet_length(dictionary) + ${fieldBytes} END AS bytes
       FROM outbox_events e LEFT JOIN record_versions v ON v.id = version_id WHERE e.id > ? ORDER BY e.id LIMIT ?`,
    ),
    insertContent: connection.prepare<
      [Content & { readonly id: number; readonly lastDelivery: number; readonly occurredAt: Instant }]
    >(
      `INSERT INTO webhook_contents (id, last_delivery, nonce, occurred_at, scopes, events, body)
       VALUES (@id, @lastDelivery, @nonce, @occurredAt, @scopes, @events, @body)`,
    ),
    /** One statement for all deliveries of a commit: 21 subscriptions cost 170 ms of CPU for 4,000 events, one for each 340. */
    insert: connection.prepare<[number, RunMs, string]>(
      `INSERT INTO webhook_deliveries (id, content_id, subscription_id, subscription_name, state, attempts,
         attempts_before, due_run_ms)
       SELECT ? + key, value ->> 0, value ->> 1, value ->> 2, 'pending', 0, 0, ? FROM json_each(?)`,
    ),
    body: connection.prepare<[number], StoredBody | null>('SELECT body FROM webhook_contents WHERE id = ?').pluck(),
    hasBody: connection.prepare<[number], number>('SELECT body IS NOT NULL FROM webhook_contents WHERE id = ?').pluck(),
    /** Of a subscription, never attempted, in the order of their ids; without those of a JSON list of ids. */
    new: connection.prepare<[NextParameters & { readonly after: number; readonly limit: number }], PendingDelivery>(
      `SELECT ${pendingColumns} FROM webhook_deliveries d INDEXED BY webhook_new JOIN webhook_contents c ON c.id = d.content_id
       WHERE ${isNew} AND d.id > $after AND subscription_id = $subscriptionId
       AND d.id NOT IN (SELECT value FROM json_each($except)) ORDER BY d.id LIMIT $limit`,
    ),
    /** The lowest id of each subscription, by a read of the whole index: 100,000 take some 20 ms. */
    firstNew: connection.prepare<[], { readonly subscriptionId: number; readonly id: number }>(
      `SELECT subscription_id AS subscriptionId, min(id) AS id FROM webhook_deliveries INDEXED BY webhook_new
       WHERE ${isNew} GROUP BY subscription_id`,
    ),
    /** The first at or above an id, of a JSON list of subscriptions. */
    oldestNew: connection.prepare<[number, string], Pick<PendingDelivery, 'id' | 'dueRunMs'>>(
      `SELECT id, due_run_ms AS dueRunMs FROM webhook_deliveries INDEXED BY webhook_new
       WHERE ${isNew} AND id >= ? AND subscription_id IN (SELECT value FROM json_each(?)) ORDER BY id LIMIT 1`,
    ),
    newest: connection.prepare<[], number>('SELECT coalesce(max(id), 0) FROM webhook_deliveries').pluck(),
    /** The next one that was attempted before, due or not. */
    again: connection.prepare<[NextParameters], PendingDelivery>(
      `SELECT ${pendingColumns} FROM ${deliveries} WHERE subscription_id = $subscriptionId AND ${isAgain}
       AND d.id NOT IN (SELECT value FROM json_each($except)) ORDER BY due_run_ms, d.id LIMIT 1`,
    ),
    /** Of the delivery that is due last: failed attempts are due later than what was resent. */
    latestState: connection
      .prepare<[number], DeliveryState>(
        `SELECT state FROM webhook_deliveries WHERE subscription_id = ? AND ${isAgain}
         ORDER BY due_run_ms DESC, id DESC LIMIT 1`,
      )
      .pluck(),
    /** null: none was attempted before. */
    earliestAgain: connection
      .prepare<[number], RunMs | null>(
        `SELECT min(due_run_ms) FROM webhook_deliveries WHERE subscription_id = ? AND ${isAgain}`,
      )
      .pluck(),
    waiting: connection
      .prepare<[], number>(
        `SELECT (SELECT count(*) FROM webhook_deliveries WHERE ${isNew} AND ${ofLiving})
         + (SELECT count(*) FROM webhook_deliveries WHERE ${isAgain} AND ${ofLiving})`,
      )
      .pluck(),
    anyDeleted: connection
      .prepare<[], number>('SELECT EXISTS (SELECT 1 FROM webhook_subscriptions WHERE deleted = 1)')
      .pluck(),
    review: connection.prepare<[DeliveryState], number>(review).pluck(),
    reviewOfLiving: connection.prepare<[DeliveryState], number>(`${review} AND ${ofLiving}`).pluck(),
    update: connection.prepare<[AfterRow & Pick<PendingDelivery, 'id' | 'attempts'>]>(
      `UPDATE webhook_deliveries SET state = @state, attempts = attempts + 1, due_run_ms = @dueRunMs,
         ended_at = @endedAt, ended_run_ms = @endedRunMs
       WHERE id = @id AND attempts = @attempts AND ${isWaiting}`,
    ),
    answer: connection.prepare<[Buffer]>('INSERT INTO webhook_answers (body) VALUES (?)'),
    attempt: connection.prepare<
      [AttemptRow & { readonly id: number; readonly attempt: number; readonly answerId: number | bigint | null }]
    >(
      `INSERT OR REPLACE INTO webhook_attempts (delivery_id, attempt, at, elapsed_ms, status, cause, message, answer_id)
       VALUES (@id, @attempt, @at, @elapsedMs, @status, @cause, @message, @answerId)`,
    ),
  };
}

function elementStatements(connection: Connection) {
  return {
    versionElement: connection
      .prepare<[number], string>(
        `SELECT ${versionElementSql} FROM outbox_events e JOIN record_versions v ON v.id = version_id WHERE e.id = ?`,
      )
      .pluck(),
    /** In a statement with the one above each event would take 22 us instead of 14. */
    wholeElement: connection
      .prepare<[number], string | null>(
        `SELECT ${wholeElementSql} FROM outbox_events e WHERE e.id = ? AND version_id IS NULL`,
      )
      .pluck(),
  };
}
