/** The SQL of planning and dispatching. */
import type { Instant } from '../../../shared/base/instant.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import type { Cause, DeliveryState } from '../face.ts';
import type { RunMs } from '../progress.ts';
import type { EventHead, PlannedDelivery } from './planning.ts';

export interface PendingDelivery {
  readonly id: number;
  readonly nonce: string;
  readonly subscriptionId: number;
  readonly templateId: number;
  readonly firstEvent: number;
  readonly lastEvent: number;
  readonly occurredAt: Instant;
  readonly state: DeliveryState;
  readonly attempts: number;
  readonly attemptsBefore: number;
  readonly dueRunMs: RunMs;
}

/** The columns of a PendingDelivery. */
export const pendingColumns = `id, nonce, subscription_id AS subscriptionId, form_id AS templateId,
  first_event AS firstEvent, last_event AS lastEvent, occurred_at AS occurredAt, state, attempts,
  attempts_before AS attemptsBefore, due_run_ms AS dueRunMs`;

export function deliveryIdOf({ id, nonce }: Pick<PendingDelivery, 'id' | 'nonce'>): string {
  return `${id}-${nonce}`;
}

interface NewDelivery extends PlannedDelivery {
  readonly subscriptionId: number;
  readonly templateId: number;
  readonly nonce: string;
  readonly occurredAt: Instant;
  readonly dueRunMs: RunMs;
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

export interface Counts {
  readonly waiting: number;
  readonly rejected: number;
  readonly failed: number;
}

/** Must be the same text as in the partial index webhook_due. */
const isWaiting = "state IN ('pending', 'retrying')";
const ofLiving = 'subscription_id IN (SELECT id FROM webhook_subscriptions WHERE deleted = 0)';

export class DeliveryRows {
  readonly sql: ReturnType<typeof statements>;

  constructor(connection: Connection) {
    this.sql = statements(connection);
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

  /** In a transaction. False: the delivery is not there any more, or is not as it was when the attempt began. */
  write(
    { id, nonce, attempts }: Pick<PendingDelivery, 'id' | 'nonce' | 'attempts'>,
    attempt: AttemptRow,
    after: AfterRow,
  ): boolean {
    const { update, answer, attempt: insertAttempt } = this.sql;
    if (update.run({ ...after, id, nonce, attempts }).changes === 0) return false;
    const answerId = attempt.answer.length === 0 ? null : answer.run(attempt.answer).lastInsertRowid;
    insertAttempt.run({ ...attempt, elapsedMs: Math.round(attempt.elapsedMs), id, attempt: attempts + 1, answerId });
    return true;
  }
}

function statements(connection: Connection) {
  const review = "SELECT count(*) FROM webhook_deliveries WHERE state IN ('rejected', 'failed') AND state = ?";
  return {
    heads: connection.prepare<[number, number], EventHead>(
      `SELECT id, tx_time AS txTime, scope, dictionary, category, action, octet_length(body) AS bytes
       FROM outbox_events WHERE id > ? ORDER BY id LIMIT ?`,
    ),
    insert: connection.prepare<[NewDelivery]>(
      `INSERT INTO webhook_deliveries (nonce, subscription_id, form_id, first_event, last_event, events, occurred_at,
         state, attempts, attempts_before, due_run_ms) VALUES (@nonce, @subscriptionId, @templateId, @firstEvent,
         @lastEvent, @events, @occurredAt, 'pending', 0, 0, @dueRunMs)`,
    ),
    /** The next waiting deliveries, due or not, without those of a JSON list of ids. */
    next: connection.prepare<[number, string, number], PendingDelivery>(
      `SELECT ${pendingColumns} FROM webhook_deliveries
       WHERE subscription_id = ? AND ${isWaiting} AND id NOT IN (SELECT value FROM json_each(?))
       ORDER BY due_run_ms, id LIMIT ?`,
    ),
    /** Of the delivery that is due last: retries are due after all deliveries without an attempt. */
    latestState: connection
      .prepare<[number], DeliveryState>(
        `SELECT state FROM webhook_deliveries WHERE subscription_id = ? AND ${isWaiting}
         ORDER BY due_run_ms DESC, id DESC LIMIT 1`,
      )
      .pluck(),
    /** null: nothing waits. */
    earliestDue: connection
      .prepare<[number], RunMs | null>(
        `SELECT min(due_run_ms) FROM webhook_deliveries WHERE subscription_id = ? AND ${isWaiting}`,
      )
      .pluck(),
    waiting: connection
      .prepare<[], number>(`SELECT count(*) FROM webhook_deliveries WHERE ${isWaiting} AND ${ofLiving}`)
      .pluck(),
    anyDeleted: connection
      .prepare<[], number>('SELECT EXISTS (SELECT 1 FROM webhook_subscriptions WHERE deleted = 1)')
      .pluck(),
    review: connection.prepare<[DeliveryState], number>(review).pluck(),
    reviewOfLiving: connection.prepare<[DeliveryState], number>(`${review} AND ${ofLiving}`).pluck(),
    update: connection.prepare<[AfterRow & Pick<PendingDelivery, 'id' | 'nonce' | 'attempts'>]>(
      `UPDATE webhook_deliveries SET state = @state, attempts = attempts + 1, due_run_ms = @dueRunMs,
         ended_at = @endedAt, ended_run_ms = @endedRunMs
       WHERE id = @id AND nonce = @nonce AND attempts = @attempts AND ${isWaiting}`,
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
