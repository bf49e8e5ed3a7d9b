/** The SQL of retention: which deliveries are old, or of no subscription, and their removal. */
import type { Connection } from '../../../shared/storage/open.ts';
import type { RunMs } from '../parts.ts';

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

export interface Answer {
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

const living = 'SELECT id FROM webhook_subscriptions WHERE deleted = 0';
const ids = 'SELECT value FROM json_each(?)';
const answersOf = `SELECT answer_id FROM webhook_attempts WHERE delivery_id IN (${ids})`;

export class RetentionRows {
  readonly #sliceEnd;
  readonly #removable;
  readonly #answerBytes;
  readonly #remove;
  readonly #templates;
  readonly #bodyBytes;
  readonly #answers;
  readonly #removeAnswers;
  readonly #deleted;
  readonly #unusedTemplates;
  readonly #removeTemplates;
  readonly #removeSubscriptions;

  constructor(connection: Connection) {
    this.#sliceEnd = connection
      .prepare<[number, number], number>('SELECT id FROM webhook_deliveries WHERE id > ? ORDER BY id LIMIT 1 OFFSET ?')
      .pluck();
    // What waits is of no age. By id: the indexes know nothing of when a delivery ended.
    this.#removable = connection.prepare<[Slice & Ages & { readonly limit: number }], Removable>(
      `SELECT id, attempts FROM webhook_deliveries NOT INDEXED WHERE id > $after AND id <= $upTo AND (
         (state = 'delivered' AND ended_run_ms < $deliveredBefore)
         OR (state IN ('rejected', 'failed') AND ended_run_ms < $reviewBefore)
         OR subscription_id NOT IN (${living})) ORDER BY id LIMIT $limit`,
    );
    this.#answerBytes = connection
      .prepare<[string, number], number | null>(
        `SELECT sum(length(body)) FROM webhook_answers WHERE id IN (${answersOf}) AND id <= ?`,
      )
      .pluck();
    this.#remove = [
      `webhook_answers WHERE id IN (${answersOf})`,
      `webhook_attempts WHERE delivery_id IN (${ids})`,
      `webhook_bodies WHERE delivery_id IN (${ids})`,
      `webhook_deliveries WHERE id IN (${ids})`,
    ].map((what) => connection.prepare<[string]>(`DELETE FROM ${what}`));
    this.#templates = connection
      .prepare<[Slice], number>(
        'SELECT DISTINCT form_id FROM webhook_deliveries NOT INDEXED WHERE id > $after AND id <= $upTo',
      )
      .pluck();
    this.#bodyBytes = connection
      .prepare<[Slice], number | null>(
        `SELECT sum(length(body)) FROM webhook_bodies b WHERE delivery_id > $after AND delivery_id <= $upTo
         AND EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.id = b.delivery_id AND d.ended_run_ms IS NOT NULL)`,
      )
      .pluck();
    this.#answers = connection.prepare<[number, number], Answer>(
      'SELECT id, length(body) AS bytes FROM webhook_answers WHERE id > ? ORDER BY id LIMIT ?',
    );
    this.#removeAnswers = connection.prepare<[number]>('DELETE FROM webhook_answers WHERE id <= ?');
    this.#deleted = connection
      .prepare<[], number>('SELECT id FROM webhook_subscriptions WHERE deleted = 1 ORDER BY id')
      .pluck();
    const unused = 'id NOT IN (SELECT form_id FROM webhook_subscriptions WHERE deleted = 0)';
    this.#unusedTemplates = connection.prepare<[], number>(`SELECT id FROM webhook_forms WHERE ${unused}`).pluck();
    this.#removeTemplates = connection.prepare<[string, number]>(
      `DELETE FROM webhook_forms WHERE id IN (${ids}) AND ${unused}
       AND id NOT IN (SELECT form_id FROM webhook_deliveries WHERE id > ?)`,
    );
    this.#removeSubscriptions = connection.prepare<[string]>(
      `DELETE FROM webhook_subscriptions WHERE deleted = 1 AND id IN (${ids})`,
    );
  }

  /** The `rows`-th delivery behind an id; undefined: there are fewer. */
  sliceEnd(after: number, rows: number): number | undefined {
    return this.#sliceEnd.get(after, rows - 1);
  }

  /** Deliveries to be removed in one transaction, in the order of their ids. `whole`: there are no more in this slice. */
  removable(slice: Slice, ages: Ages): { readonly ids: readonly number[]; readonly whole: boolean } {
    const found = this.#removable.all({ ...slice, ...ages, limit: sliceRemoved });
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
    const bytes = this.#answerBytes.get(list, answersUpTo) ?? 0;
    for (const statement of this.#remove) statement.run(list);
    return bytes;
  }

  /** Those that deliveries have. */
  templates(slice: Slice): readonly number[] {
    return this.#templates.all(slice);
  }

  /** Of deliveries that have ended. */
  bodyBytes(slice: Slice): number {
    return this.#bodyBytes.get(slice) ?? 0;
  }

  /** Oldest first. */
  answers(after: number, limit: number): readonly Answer[] {
    return this.#answers.all(after, limit);
  }

  /** The attempts keep naming them. */
  removeAnswers(upTo: number): void {
    this.#removeAnswers.run(upTo);
  }

  deletedSubscriptions(): readonly number[] {
    return this.#deleted.all();
  }

  /** Those that no subscription has now. */
  unusedTemplates(): readonly number[] {
    return this.#unusedTemplates.all();
  }

  /** In a transaction. Not those that a delivery behind that id has, or a subscription now. */
  removeTemplates(templateIds: readonly number[], behind: number): void {
    this.#removeTemplates.run(JSON.stringify(templateIds), behind);
  }

  /** In a transaction. */
  removeSubscriptions(subscriptionIds: readonly number[]): void {
    this.#removeSubscriptions.run(JSON.stringify(subscriptionIds));
  }
}
