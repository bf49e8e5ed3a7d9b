/** The dispatcher's SQL: what waits for a subscription, what an attempt changes, and how many there are. */
import type { Instant } from '../../../shared/base/instant.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import type { Cause, DeliveryState } from '../face.ts';
import type { PendingDelivery, RunMs } from '../parts.ts';
import { deflateBody } from './body-source.ts';

/** What is kept of an attempt. */
export interface AttemptRow {
  readonly at: Instant;
  readonly elapsedMs: number;
  readonly status: number | null;
  readonly cause: Cause | '';
  readonly message: string;
  /** Empty: none is kept. */
  readonly answer: Buffer;
}

/** Where an attempt leaves its delivery. */
export interface AfterRow {
  readonly state: DeliveryState;
  readonly dueRunMs: RunMs;
  /** null: it waits on. */
  readonly endedAt: Instant | null;
  readonly endedRunMs: RunMs | null;
}

export interface Counts {
  readonly waiting: number;
  readonly rejected: number;
  readonly failed: number;
}

/** To the letter as in the partial index webhook_due, which is used for nothing else. */
const isWaiting = "state IN ('pending', 'retrying')";
const ofLiving = 'subscription_id IN (SELECT id FROM webhook_subscriptions WHERE deleted = 0)';

export class DispatchRows {
  readonly #next;
  readonly #latest;
  readonly #earliest;
  readonly #waiting;
  readonly #anyDeleted;
  readonly #review;
  readonly #reviewOfLiving;
  readonly #update;
  readonly #answer;
  readonly #attempt;
  readonly #hasBody;
  readonly #body;

  constructor(connection: Connection) {
    this.#next = connection.prepare<[number, string, number], PendingDelivery>(
      `SELECT id, nonce, subscription_id AS subscriptionId, form_id AS templateId, first_event AS firstEvent,
         last_event AS lastEvent, occurred_at AS occurredAt, state, attempts, attempts_before AS attemptsBefore,
         due_run_ms AS dueRunMs
       FROM webhook_deliveries
       WHERE subscription_id = ? AND ${isWaiting} AND id NOT IN (SELECT value FROM json_each(?))
       ORDER BY due_run_ms, id LIMIT ?`,
    );
    this.#latest = connection
      .prepare<[number], DeliveryState>(
        `SELECT state FROM webhook_deliveries WHERE subscription_id = ? AND ${isWaiting}
         ORDER BY due_run_ms DESC, id DESC LIMIT 1`,
      )
      .pluck();
    this.#earliest = connection
      .prepare<[number], RunMs | null>(
        `SELECT min(due_run_ms) FROM webhook_deliveries WHERE subscription_id = ? AND ${isWaiting}`,
      )
      .pluck();
    this.#waiting = connection
      .prepare<[], number>(`SELECT count(*) FROM webhook_deliveries WHERE ${isWaiting} AND ${ofLiving}`)
      .pluck();
    this.#anyDeleted = connection
      .prepare<[], number>('SELECT EXISTS (SELECT 1 FROM webhook_subscriptions WHERE deleted = 1)')
      .pluck();
    const review = "SELECT count(*) FROM webhook_deliveries WHERE state IN ('rejected', 'failed') AND state = ?";
    this.#review = connection.prepare<[DeliveryState], number>(review).pluck();
    this.#reviewOfLiving = connection.prepare<[DeliveryState], number>(`${review} AND ${ofLiving}`).pluck();
    this.#update = connection.prepare<[DeliveryState, RunMs, Instant | null, RunMs | null, number, string, number]>(
      `UPDATE webhook_deliveries SET state = ?, attempts = attempts + 1, due_run_ms = ?, ended_at = ?, ended_run_ms = ?
       WHERE id = ? AND nonce = ? AND attempts = ? AND ${isWaiting}`,
    );
    this.#answer = connection.prepare<[Buffer]>('INSERT INTO webhook_answers (body) VALUES (?)');
    this.#attempt = connection.prepare<
      [number, number, Instant, number, number | null, string, string, number | bigint | null]
    >(
      `INSERT OR REPLACE INTO webhook_attempts (delivery_id, attempt, at, elapsed_ms, status, cause, message, answer_id)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    this.#hasBody = connection
      .prepare<[number], number>('SELECT EXISTS (SELECT 1 FROM webhook_bodies WHERE delivery_id = ?)')
      .pluck();
    this.#body = connection.prepare<[number, Buffer]>('INSERT INTO webhook_bodies (delivery_id, body) VALUES (?, ?)');
  }

  /** What waits and is due first, also when that is not yet; none of these. */
  next(subscriptionId: number, butNot: readonly number[], limit: number): readonly PendingDelivery[] {
    return this.#next.all(subscriptionId, JSON.stringify(butNot), limit);
  }

  /** Something was tried in vain: what is tried again is due behind everything that was not tried yet. */
  hasRetry(subscriptionId: number): boolean {
    return this.#latest.get(subscriptionId) === 'retrying';
  }

  /** Of all that waits for it. undefined: nothing does. */
  earliestDue(subscriptionId: number): RunMs | undefined {
    return this.#earliest.get(subscriptionId) ?? undefined;
  }

  /** Those of deleted subscriptions left out: the review states then cost a look at each, else the indexes answer alone. */
  counts(): Counts {
    const review = this.#anyDeleted.get() === 1 ? this.#reviewOfLiving : this.#review;
    return {
      waiting: this.#waiting.get() ?? 0,
      rejected: review.get('rejected') ?? 0,
      failed: review.get('failed') ?? 0,
    };
  }

  /** In a transaction. False: the delivery is not there any more, or is not as it was when the attempt began. */
  write(
    { id, nonce, attempts }: Pick<PendingDelivery, 'id' | 'nonce' | 'attempts'>,
    attempt: AttemptRow,
    after: AfterRow,
  ): boolean {
    const { state, dueRunMs, endedAt, endedRunMs } = after;
    if (this.#update.run(state, dueRunMs, endedAt, endedRunMs, id, nonce, attempts).changes === 0) return false;
    const { at, elapsedMs, status, cause, message, answer } = attempt;
    const answerId = answer.length === 0 ? null : this.#answer.run(answer).lastInsertRowid;
    this.#attempt.run(id, attempts + 1, at, Math.round(elapsedMs), status, cause, message, answerId);
    return true;
  }

  /** Kept already when it was for review before and was sent again. */
  hasBody(id: number): boolean {
    return this.#hasBody.get(id) === 1;
  }

  /** In a transaction. */
  keepBody(id: number, body: Buffer): void {
    this.#body.run(id, deflateBody(body));
  }
}
