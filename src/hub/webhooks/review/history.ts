/** The SQL of the history of webhooks, in slices; and the limit of the bytes that answers take. */
import type { Connection } from '../../../shared/storage/open.ts';
import type { ChangeStore } from '../../outbox/change-store.ts';
import { type PendingDelivery, pendingColumns } from '../delivery/delivery-rows.ts';
import type { RunMs } from '../progress.ts';

/** What ended before these is removed; of what has been due since before the last, the bodies are kept. */
export interface Ages {
  readonly deliveredBefore: RunMs;
  readonly reviewBefore: RunMs;
  readonly dueBefore: RunMs;
}

/** Behind `after`, up to and with `upTo`. */
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

/** Deliveries removed in one transaction, */
const sliceRemoved = 500;
/** and attempts with their answers: 4 KiB each, so that it writes some 5 MiB. A single delivery may have more. */
const sliceAttempts = 1_000;

const ended = `EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.id = b.delivery_id AND d.ended_run_ms IS NOT NULL)`;
const living = 'SELECT id FROM webhook_subscriptions WHERE deleted = 0';
const ids = 'SELECT value FROM json_each(?)';
const answersOf = `SELECT answer_id FROM webhook_attempts WHERE delivery_id IN (${ids})`;

/** What is all of one statement is called as such: `sql`. What removes runs in a transaction. */
export class HistoryRows {
  readonly sql: ReturnType<typeof statements>;

  constructor(connection: Connection) {
    this.sql = statements(connection);
  }

  /** Deliveries to be removed in one transaction, in the order of their ids. `whole`: there are no more in this slice. */
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

  /** In a transaction; with attempts, answers and bodies. Answers the bytes of their answers up to that id. */
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
    /** The delivery so far behind an id. */
    sliceEnd: connection
      .prepare<[number, number], number>('SELECT id FROM webhook_deliveries WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?')
      .pluck(),
    // What waits is of no age. By id: the indexes know nothing of when a delivery ended.
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
    /** Body templates that deliveries have. */
    templates: connection
      .prepare<[Slice], number>(
        'SELECT DISTINCT form_id FROM webhook_deliveries NOT INDEXED WHERE id > $after AND id <= $upTo',
      )
      .pluck(),
    /** Body templates that no subscription has now. */
    unusedTemplates: connection.prepare<[], number>(`SELECT id FROM webhook_forms WHERE ${unused}`).pluck(),
    /** Not those that a delivery behind that id has, or a subscription now. */
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
    /** The attempts keep naming them. */
    removeAnswers: connection.prepare<[number]>('DELETE FROM webhook_answers WHERE id <= ?'),
    /** Kept bodies of deliveries that have ended: what waits needs its body, since its events may have gone. */
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
    /** Those that wait and whose events are kept for them alone: not for the broker. */
    overdue: connection.prepare<[Slice & { readonly dueBefore: RunMs; readonly limit: number }], PendingDelivery>(
      `SELECT ${pendingColumns}
       FROM webhook_deliveries d NOT INDEXED WHERE id > $after AND id <= $upTo AND state IN ('pending', 'retrying')
       AND due_run_ms < $dueBefore AND NOT EXISTS (SELECT 1 FROM webhook_bodies b WHERE b.delivery_id = d.id)
       AND NOT EXISTS (SELECT 1 FROM outbox_waiting w WHERE w.id BETWEEN d.first_event AND d.last_event)
       ORDER BY id LIMIT $limit`,
    ),
  };
}

/** Lengths read in one turn: some 2 ms. */
const sliceCounted = 2_000;
/** Removed in one transaction: some 2 MiB. */
const sliceAnswers = 500;

/** Keeps the beginnings of answers within so many bytes in all: the oldest go, their attempts stay. */
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

  /** Of all answers up to countedTo. */
  get bytes(): number {
    return this.#bytes;
  }

  get countedTo(): number {
    return this.#countedTo;
  }

  /** Others have removed so many of those that were counted. */
  removed(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** A bounded piece of work: counts what has come, then removes what is too much. True: there is more to do. */
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
