/** The SQL of retention, in slices; the limit of the bytes of answers. */
import type { Connection } from '../../../shared/storage/open.ts';
import type { ChangeStore } from '../../outbox/change-store.ts';
import { type PendingDelivery, pendingColumns } from '../delivery/delivery-rows.ts';
import type { RunMs } from '../progress.ts';

/** Deliveries that ended before the first two are removed; bodies of those due before the last are kept. */
export interface Ages {
  readonly deliveredBefore: RunMs;
  readonly reviewBefore: RunMs;
  readonly dueBefore: RunMs;
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
  readonly attempts: number;
}

/** Deliveries removed in one transaction. */
const sliceRemoved = 500;
/** Attempts removed in one transaction: with answers of 4 KiB some 5 MiB. A single delivery may have more. */
const sliceAttempts = 1_000;

const ended = `EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.id = b.delivery_id AND d.ended_run_ms IS NOT NULL)`;
const living = 'SELECT id FROM webhook_subscriptions WHERE deleted = 0';
const ids = 'SELECT value FROM json_each(?)';
const answersOf = `SELECT answer_id FROM webhook_attempts WHERE delivery_id IN (${ids})`;

export class HistoryRows {
  readonly sql: ReturnType<typeof statements>;

  constructor(connection: Connection) {
    this.sql = statements(connection);
  }

  /** Deliveries to remove in one transaction, in the order of their ids. `whole`: the slice has no others. */
  removable(slice: Slice, ages: Ages): { readonly ids: readonly number[]; readonly whole: boolean } {
    const found = this.sql.removable.all({ ...slice, ...ages, limit: sliceRemoved });
    let attempts = 0;
    const last = found.findIndex((row) => {
      attempts += row.attempts;
      return attempts >= sliceAttempts;
    });
    const claim = last === -1 ? found : found.slice(0, last + 1);
    return { ids: claim.map(({ id }) => id), whole: claim.length === found.length && found.length < sliceRemoved };
  }

  /** In a transaction; with attempts, answers and bodies. Answers the bytes of their answers up to id `answersUpTo`. */
  remove(deliveryIds: readonly number[], answersUpTo: number): number {
    const list = JSON.stringify(deliveryIds);
    const bytes = this.sql.answerBytes.get(list, answersUpTo) ?? 0;
    for (const statement of this.sql.remove) statement.run(list);
    return bytes;
  }
}

function statements(connection: Connection) {
  const unused = 'id NOT IN (SELECT form_id FROM webhook_subscriptions WHERE deleted = 0)';
  return {
    /** The delivery at an offset from an id. */
    sliceEnd: connection
      .prepare<[number, number], number>('SELECT id FROM webhook_deliveries WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?')
      .pluck(),
    // NOT INDEXED: no index holds the time of the end.
    removable: connection.prepare<[Slice & Ages & { readonly limit: number }], Removable>(
      `SELECT id, attempts FROM webhook_deliveries NOT INDEXED WHERE id > $after AND id <= $upTo AND (
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
      `webhook_bodies WHERE delivery_id IN (${ids})`,
      `webhook_deliveries WHERE id IN (${ids})`,
    ].map((what) => connection.prepare<[string]>(`DELETE FROM ${what}`)),
    /** Used by deliveries. */
    templates: connection
      .prepare<[Slice], number>(
        'SELECT DISTINCT form_id FROM webhook_deliveries NOT INDEXED WHERE id > $after AND id <= $upTo',
      )
      .pluck(),
    /** Used by no subscription. */
    unusedTemplates: connection.prepare<[], number>(`SELECT id FROM webhook_forms WHERE ${unused}`).pluck(),
    /** Except those used by a subscription or by a delivery above that id. */
    removeTemplates: connection.prepare<[string, number]>(
      `DELETE FROM webhook_forms WHERE id IN (${ids}) AND ${unused}
       AND id NOT IN (SELECT form_id FROM webhook_deliveries WHERE id > ?)`,
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
    /** Bodies of ended deliveries: waiting ones need theirs, because their events may be removed. */
    bodyBytes: connection
      .prepare<[Slice], number | null>(
        `SELECT sum(length(body)) FROM webhook_bodies b WHERE delivery_id > $after AND delivery_id <= $upTo AND ${ended}`,
      )
      .pluck(),
    bodies: connection.prepare<[Slice & { readonly limit: number }], Sized>(
      `SELECT delivery_id AS id, length(body) AS bytes FROM webhook_bodies b WHERE delivery_id > $after
       AND delivery_id <= $upTo AND ${ended} ORDER BY delivery_id LIMIT $limit`,
    ),
    removeBodies: connection.prepare<[string]>(`DELETE FROM webhook_bodies WHERE delivery_id IN (${ids})`),
    /** Waiting deliveries whose events are not kept for the broker anyway. */
    overdue: connection.prepare<[Slice & { readonly dueBefore: RunMs; readonly limit: number }], PendingDelivery>(
      `SELECT ${pendingColumns}
       FROM webhook_deliveries d NOT INDEXED WHERE id > $after AND id <= $upTo AND state IN ('pending', 'retrying')
       AND due_run_ms < $dueBefore AND NOT EXISTS (SELECT 1 FROM webhook_bodies b WHERE b.delivery_id = d.id)
       AND NOT EXISTS (SELECT 1 FROM outbox_waiting w WHERE w.id BETWEEN d.first_event AND d.last_event)
       ORDER BY id LIMIT $limit`,
    ),
  };
}

/** Lengths read in one step: some 2 ms. */
const sliceCounted = 2_000;
/** Removed in one transaction: some 2 MiB. */
const sliceAnswers = 500;

/** Keeps all answers together within a number of bytes: removes the oldest, without their attempts. */
export class AnswerLimit {
  readonly #store: ChangeStore;
  readonly #sql: HistoryRows['sql'];
  readonly #maxBytes: number;
  #bytes = 0;
  #countedTo = 0;

  constructor(store: ChangeStore, { sql }: HistoryRows, maxBytes: number) {
    this.#store = store;
    this.#sql = sql;
    this.#maxBytes = maxBytes;
  }

  /** Of all answers up to id countedTo. */
  get bytes(): number {
    return this.#bytes;
  }

  get countedTo(): number {
    return this.#countedTo;
  }

  /** Counted answers of so many bytes were removed with their deliveries. */
  removed(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** A bounded step: counts new answers, then removes the excess. True: there is more to do. */
  async step(): Promise<boolean> {
    if (this.#count()) return true;
    if (this.#bytes <= this.#maxBytes) return false;
    const oldest = this.#sql.answers.all(0, sliceAnswers);
    let left = oldest.length === 0 ? 0 : this.#bytes;
    let upTo = 0;
    for (const { id, bytes } of oldest) {
      if (left <= this.#maxBytes) break;
      left -= bytes;
      upTo = id;
    }
    await this.#store.maintain(() => this.#sql.removeAnswers.run(upTo));
    this.#bytes = left;
    return left > this.#maxBytes;
  }

  #count(): boolean {
    const come = this.#sql.answers.all(this.#countedTo, sliceCounted);
    for (const { bytes } of come) this.#bytes += bytes;
    this.#countedTo = come.at(-1)?.id ?? this.#countedTo;
    return come.length === sliceCounted;
  }
}
