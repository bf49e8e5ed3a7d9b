/** The SQL of review (deliveries by pages, their attempts, resending) and of retention (removal in slices). */
import type { Instant } from '../../../shared/base/instant.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import { headBytes, type StoredBody } from '../delivery/contents.ts';
import {
  deliveries,
  type PendingDelivery,
  pendingColumns,
  type AttemptRow as StoredAttempt,
} from '../delivery/delivery-rows.ts';
import type { DeliveryState } from '../face.ts';
import type { RunMs } from '../progress.ts';

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
const withLast = `SELECT ${deliveryColumns}, ${attemptColumns} FROM ${deliveries}
  LEFT JOIN webhook_attempts a ON a.delivery_id = d.id AND a.attempt = d.attempts`;

/** Must be the same text as in the partial index webhook_review. */
const isForReview = "state IN ('rejected', 'failed')";

export interface PageParameters {
  /** A JSON list of ids. */
  readonly subscriptions: string;
  readonly state: DeliveryState | null;
  /** Of the last attempt. */
  readonly statusCode: number | null;
  readonly before: number;
  readonly end: number;
  readonly limit: number;
}
interface BodyBegin {
  readonly id: number;
  /** Of the whole. */
  readonly bytes: number;
  readonly begin: StoredBody;
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
         AND ($statusCode IS NULL OR status = $statusCode) AND subscription_id IN (SELECT value FROM json_each($subscriptions)) ORDER BY d.id DESC LIMIT $limit`,
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
        `SELECT ${deliveryColumns} FROM ${deliveries} WHERE ${condition} AND d.id > $after AND d.id <= $end
         AND subscription_id = $subscriptionId AND state = $state AND ($from IS NULL OR occurred_at >= $from)
         AND ($to IS NULL OR occurred_at < $to) ORDER BY d.id LIMIT $limit`,
      ),
    })),
    /** Of the newest deliveries. */
    results: connection.prepare<[number], { subscriptionId: number; state: DeliveryState; deliveries: number }>(
      `SELECT subscription_id AS subscriptionId, state, count(*) AS deliveries
       FROM (SELECT subscription_id, state FROM webhook_deliveries ORDER BY id DESC LIMIT ?) GROUP BY 1, 2`,
    ),
    /** When the oldest of the newest deliveries was made. */
    since: connection
      .prepare<[number], Instant>(
        `SELECT occurred_at FROM webhook_contents WHERE id =
         (SELECT content_id FROM (SELECT id, content_id FROM webhook_deliveries ORDER BY id DESC LIMIT ?) ORDER BY id LIMIT 1)`,
      )
      .pluck(),
    /** The begin of the events of each content of a JSON list of ids, newest first. */
    begins: connection.prepare<[string], BodyBegin>(
      `SELECT id, octet_length(body) AS bytes, substr(body, 1, ${headBytes}) AS begin FROM webhook_contents
       WHERE id IN (SELECT value FROM json_each(?)) AND body IS NOT NULL ORDER BY id DESC`,
    ),
    one: connection.prepare<[number], ListedRow>(`${withLast} WHERE d.id = ?`),
    /** Newest first. */
    attempts: connection.prepare<[number], AttemptRow>(
      `SELECT ${attemptColumns}, body AS answer FROM webhook_attempts LEFT JOIN webhook_answers ON id = answer_id
       WHERE delivery_id = ? ORDER BY attempt DESC LIMIT ${shownAttempts}`,
    ),
    /** In a transaction. Changes nothing when the delivery waits, or was changed since it was read. */
    resend: connection.prepare<[Pick<PendingDelivery, 'id' | 'state' | 'dueRunMs'>]>(
      `UPDATE webhook_deliveries SET state = 'pending', attempts_before = attempts, due_run_ms = @dueRunMs, ended_at = NULL,
         ended_run_ms = NULL
       WHERE id = @id AND state = @state AND state IN ('delivered', 'rejected', 'failed')`,
    ),
  };
}

function bySource<T>(prepare: (condition: string) => T): Readonly<Record<ReturnType<typeof sourceOf>, T>> {
  const of = (state: string): T => prepare(`${isForReview} AND state = '${state}'`);
  return { all: prepare('TRUE'), rejected: of('rejected'), failed: of('failed') };
}

// Retention.

/** Deliveries that ended before are removed. */
export interface Ages {
  readonly deliveredBefore: RunMs;
  readonly reviewBefore: RunMs;
}

/** Ids above `after`, up to and including `upTo`. */
export interface Slice {
  readonly after: number;
  readonly upTo: number;
}

interface Sized {
  readonly id: number;
  readonly bytes: number;
}

interface Removable {
  readonly id: number;
  readonly contentId: number;
  readonly attempts: number;
}

/** Contents whose deliveries have all ended. */
interface EndedContent extends Sized {
  /** 1: at least one of them is for review. 0: all were delivered. */
  readonly isForReview: 0 | 1;
}

/** Deliveries removed in one transaction. */
const sliceRemoved = 500;
/** Attempts removed in one transaction: with answers of 4 KiB some 5 MiB. A single delivery may have more. */
const sliceAttempts = 1_000;

const living = 'SELECT id FROM webhook_subscriptions WHERE deleted = 0';
const ids = 'SELECT value FROM json_each(?)';
const answersOf = `SELECT answer_id FROM webhook_attempts WHERE delivery_id IN (${ids})`;
const itsDeliveries = `SELECT 1 FROM webhook_deliveries d
  WHERE d.id BETWEEN c.id AND c.last_delivery AND content_id = c.id`;

export class HistoryRows {
  readonly sql: ReturnType<typeof retentionSql>;

  constructor(connection: Connection) {
    this.sql = retentionSql(connection);
  }

  /** Deliveries to remove in one transaction, in the order of their ids. `whole`: the slice has no others. */
  removable(slice: Slice, ages: Ages): { readonly found: readonly Removable[]; readonly whole: boolean } {
    const all = this.sql.removable.all({ ...slice, ...ages, limit: sliceRemoved });
    let attempts = 0;
    const last = all.findIndex((row) => {
      attempts += row.attempts;
      return attempts >= sliceAttempts;
    });
    const found = last === -1 ? all : all.slice(0, last + 1);
    return { found, whole: found.length === all.length && all.length < sliceRemoved };
  }

  /**
   * In a transaction; with attempts, answers, and contents that no other delivery has. Answers the bytes of their answers up
   * to id `answersUpTo`.
   */
  remove(removed: readonly Removable[], answersUpTo: number): number {
    const list = JSON.stringify(removed.map(({ id }) => id));
    const bytes = this.sql.answerBytes.get(list, answersUpTo) ?? 0;
    for (const statement of this.sql.remove) statement.run(list);
    this.sql.removeContents.run(JSON.stringify(removed.map(({ contentId }) => contentId)));
    return bytes;
  }
}

function retentionSql(connection: Connection) {
  const sliceEnd = (table: string) =>
    connection
      .prepare<[number, number], number>(`SELECT id FROM ${table} WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?`)
      .pluck();
  return {
    /** The delivery at an offset from an id. */
    sliceEnd: sliceEnd('webhook_deliveries'),
    contentsEnd: sliceEnd('webhook_contents'),
    // NOT INDEXED: no index holds the time of the end.
    removable: connection.prepare<[Slice & Ages & { readonly limit: number }], Removable>(
      `SELECT id, content_id AS contentId, attempts FROM webhook_deliveries NOT INDEXED WHERE id > $after AND id <= $upTo AND (
         (state = 'delivered' AND ended_run_ms < $deliveredBefore)
         OR (state IN ('rejected', 'failed') AND ended_run_ms < $reviewBefore)
         OR subscription_id NOT IN (${living})) ORDER BY id LIMIT $limit`,
    ),
    answerBytes: connection
      .prepare<[string, number], number | null>(
        `SELECT sum(length(body)) FROM webhook_answers WHERE id IN (${answersOf}) AND id <= ?`,
      )
      .pluck(),
    remove: [
      `webhook_answers WHERE id IN (${answersOf})`,
      `webhook_attempts WHERE delivery_id IN (${ids})`,
      `webhook_deliveries WHERE id IN (${ids})`,
    ].map((what) => connection.prepare<[string]>(`DELETE FROM ${what}`)),
    removeContents: connection.prepare<[string]>(
      `DELETE FROM webhook_contents AS c WHERE id IN (${ids}) AND NOT EXISTS (${itsDeliveries})`,
    ),
    deletedSubscriptions: connection
      .prepare<[], number>('SELECT id FROM webhook_subscriptions WHERE deleted = 1 ORDER BY id')
      .pluck(),
    removeSubscriptions: connection.prepare<[string]>(
      `DELETE FROM webhook_subscriptions WHERE deleted = 1 AND id IN (${ids})`,
    ),
    /** Oldest first. */
    answers: connection.prepare<[number, number], Sized>(
      'SELECT id, length(body) AS bytes FROM webhook_answers WHERE id > ? ORDER BY id LIMIT ?',
    ),
    removeAnswers: connection.prepare<[number]>('DELETE FROM webhook_answers WHERE id <= ?'),
    /** Oldest first. */
    endedContents: connection.prepare<[Slice], EndedContent>(
      `SELECT id, octet_length(body) AS bytes, EXISTS (${itsDeliveries} AND state <> 'delivered') AS isForReview
       FROM webhook_contents c WHERE id > $after AND id <= $upTo AND body IS NOT NULL
       AND NOT EXISTS (${itsDeliveries} AND ended_run_ms IS NULL) ORDER BY id`,
    ),
    /** A delivery may have been resent meanwhile. */
    removeBodies: connection.prepare<[string]>(
      `UPDATE webhook_contents AS c SET body = NULL WHERE id IN (${ids})
       AND NOT EXISTS (${itsDeliveries} AND ended_run_ms IS NULL)`,
    ),
  };
}
