/** The SQL of review: deliveries by pages, their attempts, and resending. */
import type { Instant } from '../../../shared/base/instant.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import { type PendingDelivery, pendingColumns, type AttemptRow as StoredAttempt } from '../delivery/delivery-rows.ts';
import type { DeliveryState } from '../face.ts';

export interface DeliveryRow extends PendingDelivery {
  readonly events: number;
  readonly endedAt: Instant | null;
}

export interface AttemptRow extends Omit<StoredAttempt, 'answer'> {
  readonly attempt: number;
  /** The beginning of the answer; null: not kept. */
  readonly answer: Buffer | null;
}

/** A delivery with its last attempt; null: there was none. */
export type ListedRow = DeliveryRow & { readonly [K in Exclude<keyof AttemptRow, 'answer'>]: AttemptRow[K] | null };

/** Rejected and failed deliveries are found by their index, others by reading all rows. */
export function sourceOf(state: DeliveryState | null): 'all' | 'rejected' | 'failed' {
  return state === 'rejected' || state === 'failed' ? state : 'all';
}

/** occurredAt at or after `from`, before `to`. */
export interface ResendSelection {
  readonly subscriptionId: number;
  readonly state: DeliveryState;
  /** null: unbounded. */
  readonly from: Instant | null;
  readonly to: Instant | null;
}

/** The newest are shown: each resend may add ten attempts with answers of 4 KiB. */
const shownAttempts = 200;

const deliveryColumns = `${pendingColumns}, events, ended_at AS endedAt`;
const attemptColumns = 'attempt, at, elapsed_ms AS elapsedMs, status, cause, message';
const withLast = `SELECT ${deliveryColumns}, ${attemptColumns} FROM webhook_deliveries d
  LEFT JOIN webhook_attempts a ON a.delivery_id = d.id AND a.attempt = d.attempts`;

/** Must be the same text as in the partial index webhook_review. */
const isForReview = "state IN ('rejected', 'failed')";

interface PageParameters {
  /** A JSON list of ids. */
  readonly subscriptions: string;
  readonly state: DeliveryState | null;
  readonly before: number;
  readonly end: number;
  readonly limit: number;
}
type SliceParameters = ResendSelection & { readonly after: number; readonly end: number; readonly limit: number };

export type ReviewSql = ReturnType<typeof reviewSql>;

export function reviewSql(connection: Connection) {
  return {
    /** Newest first. `end`: the id at an offset from another id; `page`: the deliveries down to it. */
    down: bySource((condition) => ({
      end: connection
        .prepare<[number, number], number>(
          `SELECT id FROM webhook_deliveries WHERE ${condition} AND id < ? ORDER BY id DESC LIMIT 1 OFFSET ?`,
        )
        .pluck(),
      page: connection.prepare<[PageParameters], ListedRow>(
        `${withLast} WHERE ${condition} AND d.id < $before AND d.id >= $end AND ($state IS NULL OR state = $state)
         AND subscription_id IN (SELECT value FROM json_each($subscriptions)) ORDER BY d.id DESC LIMIT $limit`,
      ),
    })),
    /** Oldest first, likewise. */
    up: bySource((condition) => ({
      end: connection
        .prepare<[number, number], number>(
          `SELECT id FROM webhook_deliveries WHERE ${condition} AND id > ? ORDER BY id LIMIT 1 OFFSET ?`,
        )
        .pluck(),
      slice: connection.prepare<[SliceParameters], DeliveryRow>(
        `SELECT ${deliveryColumns} FROM webhook_deliveries d WHERE ${condition} AND id > $after AND id <= $end
         AND subscription_id = $subscriptionId AND state = $state AND ($from IS NULL OR occurred_at >= $from)
         AND ($to IS NULL OR occurred_at < $to) ORDER BY id LIMIT $limit`,
      ),
    })),
    one: connection.prepare<[number], ListedRow>(`${withLast} WHERE d.id = ?`),
    newest: connection.prepare<[], number>('SELECT coalesce(max(id), 0) FROM webhook_deliveries').pluck(),
    /** Newest first. */
    attempts: connection.prepare<[number], AttemptRow>(
      `SELECT ${attemptColumns}, body AS answer FROM webhook_attempts LEFT JOIN webhook_answers ON id = answer_id
       WHERE delivery_id = ? ORDER BY attempt DESC LIMIT ${shownAttempts}`,
    ),
    events: connection
      .prepare<[number, number], number>('SELECT count(*) FROM outbox_events WHERE id BETWEEN ? AND ?')
      .pluck(),
    /** In a transaction. Changes nothing when the delivery waits, or was changed since it was read. */
    resend: connection.prepare<[Pick<PendingDelivery, 'id' | 'nonce' | 'state' | 'dueRunMs'>]>(
      `UPDATE webhook_deliveries SET state = 'pending', attempts_before = attempts, due_run_ms = @dueRunMs, ended_at = NULL,
         ended_run_ms = NULL
       WHERE id = @id AND nonce = @nonce AND state = @state AND state IN ('delivered', 'rejected', 'failed')`,
    ),
  };
}

function bySource<T>(prepare: (condition: string) => T): Readonly<Record<ReturnType<typeof sourceOf>, T>> {
  const of = (state: string): T => prepare(`${isForReview} AND state = '${state}'`);
  return { all: prepare('TRUE'), rejected: of('rejected'), failed: of('failed') };
}
