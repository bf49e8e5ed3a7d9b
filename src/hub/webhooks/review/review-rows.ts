/** The SQL of review: deliveries by pages, their attempts, and sending them again. */
import type { Instant } from '../../../shared/base/instant.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import { type PendingDelivery, pendingColumns } from '../delivery/delivery-rows.ts';
import type { Cause, DeliveryState } from '../face.ts';
import type { RunMs } from '../progress.ts';

export interface DeliveryRow extends PendingDelivery {
  readonly events: number;
  readonly endedAt: Instant | null;
}

export interface AttemptRow {
  readonly attempt: number;
  readonly at: Instant;
  readonly elapsedMs: number;
  readonly status: number | null;
  readonly cause: Cause | '';
  readonly message: string;
  /** The beginning of the answer; null: none is kept. */
  readonly answer: Buffer | null;
}

/** A delivery with its last attempt, whose columns are null where there was none. */
export type ListedRow = DeliveryRow & { readonly [K in Exclude<keyof AttemptRow, 'answer'>]: AttemptRow[K] | null };

/** Which rows a walk goes over: all of them, or by their index those of a review state. */
type Source = 'all' | 'rejected' | 'failed';

export function sourceOf(state: DeliveryState | undefined): Source {
  return state === 'rejected' || state === 'failed' ? state : 'all';
}

/** Deliveries of these subscriptions, and in this state. */
export interface DeliveryFilter {
  readonly subscriptions: readonly number[];
  readonly state: DeliveryState | undefined;
}

/** Of one subscription and state, those of a time: occurredAt at or after `from`, before `to`. */
export interface ResendSelection {
  readonly subscriptionId: number;
  readonly state: DeliveryState;
  readonly from: Instant | undefined;
  readonly to: Instant | undefined;
}

/** Attempts shown of a delivery, the newest: each time it is sent again may add ten with 4 KiB of answer. */
const shownAttempts = 200;

const deliveryColumns = `${pendingColumns}, events, ended_at AS endedAt`;
const attemptColumns = 'attempt, at, elapsed_ms AS elapsedMs, status, cause, message';
const withLast = `SELECT ${deliveryColumns}, ${attemptColumns} FROM webhook_deliveries d
  LEFT JOIN webhook_attempts a ON a.delivery_id = d.id AND a.attempt = d.attempts`;

/** To the letter as in the partial index webhook_review. */
const isForReview = "state IN ('rejected', 'failed')";
const conditions: Readonly<Record<Source, string>> = {
  all: 'TRUE',
  rejected: `${isForReview} AND state = 'rejected'`,
  failed: `${isForReview} AND state = 'failed'`,
};

interface Range {
  readonly before: number;
  readonly end: number;
}
type PageParameters = Range & { readonly subscriptions: string; readonly state: string | null; readonly limit: number };
type SliceParameters = Omit<ResendSelection, 'from' | 'to'> & {
  readonly after: number;
  readonly end: number;
  readonly limit: number;
  readonly from: Instant | null;
  readonly to: Instant | null;
};

export class ReviewRows {
  readonly #sql: ReturnType<typeof statements>;

  constructor(connection: Connection) {
    this.#sql = statements(connection);
  }

  /** Newest first: the `rows`-th behind an id; undefined: there are fewer. */
  endDown(source: Source, before: number, rows: number): number | undefined {
    return this.#sql.down[source].end.get(before, rows - 1);
  }

  /** Newest first, down to `end`. */
  page({ subscriptions, state }: DeliveryFilter, range: Range, limit: number): readonly ListedRow[] {
    return this.#sql.down[sourceOf(state)].page.all({
      ...range,
      subscriptions: JSON.stringify(subscriptions),
      state: state ?? null,
      limit,
    });
  }

  /** Oldest first: the `rows`-th behind an id; undefined: there are fewer. */
  endUp(source: Source, after: number, rows: number): number | undefined {
    return this.#sql.up[source].end.get(after, rows - 1);
  }

  /** Oldest first, behind `after` up to `end`. */
  slice(
    { from, to, ...meant }: ResendSelection,
    range: { readonly after: number; readonly end: number },
    limit: number,
  ): readonly DeliveryRow[] {
    return this.#sql.up[sourceOf(meant.state)].slice.all({
      ...meant,
      ...range,
      from: from ?? null,
      to: to ?? null,
      limit,
    });
  }

  one(id: number): ListedRow | undefined {
    return this.#sql.one.get(id);
  }

  /** The highest id; 0: there is none. */
  newest(): number {
    return this.#sql.newest.get() ?? 0;
  }

  /** Oldest first; of very many the newest. */
  attempts(id: number): readonly AttemptRow[] {
    return this.#sql.attempts.all(id, shownAttempts).reverse();
  }

  /** Events of these ids that are kept, for whatever subscription. */
  events(first: number, last: number): number {
    return this.#sql.events.get(first, last) ?? 0;
  }

  /** In a transaction. False: it waits, or is not there any more as it was read. */
  resend({ id, nonce, state }: Pick<PendingDelivery, 'id' | 'nonce' | 'state'>, dueRunMs: RunMs): boolean {
    return this.#sql.resend.run(dueRunMs, id, nonce, state).changes > 0;
  }
}

function statements(connection: Connection) {
  return {
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
    newest: connection.prepare<[], number | null>('SELECT max(id) FROM webhook_deliveries').pluck(),
    attempts: connection.prepare<[number, number], AttemptRow>(
      `SELECT ${attemptColumns}, body AS answer FROM webhook_attempts LEFT JOIN webhook_answers ON id = answer_id
       WHERE delivery_id = ? ORDER BY attempt DESC LIMIT ?`,
    ),
    events: connection
      .prepare<[number, number], number>('SELECT count(*) FROM outbox_events WHERE id BETWEEN ? AND ?')
      .pluck(),
    resend: connection.prepare<[RunMs, number, string, DeliveryState]>(
      `UPDATE webhook_deliveries SET state = 'pending', attempts_before = attempts, due_run_ms = ?, ended_at = NULL,
         ended_run_ms = NULL
       WHERE id = ? AND nonce = ? AND state = ? AND state IN ('delivered', 'rejected', 'failed')`,
    ),
  };
}

function bySource<T>(prepare: (condition: string) => T): Readonly<Record<Source, T>> {
  return {
    all: prepare(conditions.all),
    rejected: prepare(conditions.rejected),
    failed: prepare(conditions.failed),
  };
}
