/** Deliveries for review: by pages, each with its attempts. */

import { LinesideError } from '../../../shared/base/errors.ts';
import { noCursor, type Page } from '../../outbox/paging.ts';
import { deliveryIdOf, type EventHead, firstEventOf } from '../delivery/contents.ts';
import type { PendingDelivery } from '../delivery/delivery-rows.ts';
import type { Attempt, Caller, Delivery, DeliveryDetail, DeliveryQuery, DeliveryResults } from '../face.ts';
import type { WebhookParts } from '../parts.ts';
import { idOf, type Subscription } from '../subscriptions/subscription.ts';
import {
  type AttemptRow,
  type ListedRow,
  type PageParameters,
  type ReviewSql,
  reviewSql,
  sourceOf,
} from './review-rows.ts';

export type ReviewOptions = Pick<WebhookParts, 'store' | 'cache' | 'rows' | 'running'>;

/** Rows read for one page, some 5 ms: a page of a rare state may be short. */
const pageRows = 20_000;
/** Of `results`: some 5 ms. */
const countedRows = 10_000;
/** Of stored events that are read for the names in one page: some 5 ms. A single one more may be longer. */
const pageBodyBytes = 4 * 1_024 * 1_024;
/** Rows read in one step: a page without a filter needs one. */
const stepRows = 2_000;

export class Review {
  readonly #o: ReviewOptions;
  readonly #sql: ReviewSql;

  constructor(options: ReviewOptions) {
    this.#o = options;
    this.#sql = reviewSql(options.store.connection);
  }

  deliveries(caller: Caller, query: DeliveryQuery): Page<Delivery> {
    const { limit, cursor, state, subscription: of, statusCode } = query;
    const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : idOf(cursor);
    if (before === undefined) throw noCursor();
    const id = of === undefined ? undefined : idOf(of);
    const listed = this.#o.cache.all().filter((one) => of === undefined || one.id === id);
    if (listed.length === 0) return { items: [], nextCursor: undefined };
    const subscriptions = JSON.stringify(listed.map((one) => one.id));
    const wanted = { subscriptions, state: state ?? null, statusCode: statusCode ?? null };
    return this.#o.store.read(() => {
      const { rows, next } = this.#page(wanted, before, limit);
      const first = this.#firstEvents(caller, rows);
      const items = rows.map((row) => this.#view(row, first));
      return { items, nextCursor: next === undefined ? undefined : String(next) };
    });
  }

  /** `next`: cursor of the next page; undefined: this is the last. */
  #page(
    wanted: Pick<PageParameters, 'subscriptions' | 'state' | 'statusCode'>,
    before: number,
    limit: number,
  ): { readonly rows: readonly ListedRow[]; readonly next: number | undefined } {
    const sql = this.#sql.down[sourceOf(wanted.state)];
    const found: ListedRow[] = [];
    let from = before;
    for (let read = 0; read < pageRows; read += stepRows) {
      const end = sql.end.get(from, stepRows - 1);
      // One more than is shown, to see whether another page follows.
      found.push(...sql.page.all({ ...wanted, before: from, end: end ?? 0, limit: limit + 1 - found.length }));
      if (found.length > limit) return { rows: found.slice(0, limit), next: found[limit - 1]?.id };
      if (end === undefined) return { rows: found, next: undefined };
      from = end;
    }
    return { rows: found, next: from };
  }

  /** Of the newest deliveries: a read of bounded length, whatever is kept. */
  results(): DeliveryResults {
    const { cache, store } = this.#o;
    const [counts, since] = store.read(() => [this.#sql.results.all(countedRows), this.#sql.since.get(countedRows)]);
    const none = { delivered: 0, rejected: 0, failed: 0, waiting: 0 };
    const found = new Map(cache.all().map(({ id }) => [id, { subscription: String(id), ...none }]));
    for (const { subscriptionId, state, deliveries } of counts) {
      const of = found.get(subscriptionId);
      if (of !== undefined) of[state === 'pending' || state === 'retrying' ? 'waiting' : state] += deliveries;
    }
    const deliveries = counts.reduce((sum, one) => sum + one.deliveries, 0);
    return { since: since ?? null, deliveries, subscriptions: [...found.values()] };
  }

  view(caller: Caller, row: ListedRow): Delivery {
    return this.#view(row, this.#firstEvents(caller, [row]));
  }

  /** Those that the caller may read, as far as a bounded read goes: SQLite reads a long body whole. */
  #firstEvents(caller: Caller, rows: readonly ListedRow[]): FirstEvents {
    const ids = rows.filter((row) => mayRead(caller, row)).map(({ contentId }) => contentId);
    const found = new Map<number, EventHead>();
    let read = 0;
    for (const { id, bytes, begin } of this.#sql.begins.iterate(JSON.stringify([...new Set(ids)]))) {
      const first = firstEventOf(begin);
      if (first !== undefined) found.set(id, first);
      read += bytes;
      if (read >= pageBodyBytes) break;
    }
    return found;
  }

  #view(row: ListedRow, first: FirstEvents): Delivery {
    const { cache, running } = this.#o;
    const { subscriptionId, state, occurredAt, events, attempts, dueRunMs, endedAt } = row;
    const waits = state === 'pending' || state === 'retrying';
    return {
      deliveryId: deliveryIdOf(row),
      subscription: String(subscriptionId),
      subscriptionName: cache.byId(subscriptionId)?.name ?? '',
      state,
      occurredAt,
      events,
      firstEvent: first.get(row.contentId) ?? null,
      attempts,
      nextAttemptInSeconds: waits ? Math.max(0, Math.ceil((dueRunMs - running.now()) / 1000)) : null,
      endedAt,
      lastAttempt: lastAttempt(row),
    };
  }

  delivery(caller: Caller, deliveryId: string): DeliveryDetail {
    return this.#o.store.read(() => {
      const { row } = this.find(deliveryId);
      const view = this.view(caller, row);
      const isOpen = mayRead(caller, row);
      // An answer may quote what was sent.
      const attemptList = this.#sql.attempts
        .all(row.id)
        .reverse()
        .map((attempt) => attemptView(isOpen ? attempt : { ...attempt, answer: null }));
      const last = attemptList.at(-1);
      const lastAttempt = last?.attempt === row.attempts ? last : null;
      return { ...view, lastAttempt, body: isOpen ? this.#text(row) : null, attemptList };
    });
  }

  #text(row: ListedRow): string | null {
    const body = this.#o.rows.bodyOf(row);
    return 'unavailable' in body ? null : body.toString('utf8');
  }

  /** Throws NOT_FOUND, also for deliveries of a deleted subscription. */
  find(deliveryId: string): { readonly row: ListedRow; readonly subscription: Subscription } {
    const key = deliveryKeyOf(deliveryId);
    const row = key === undefined ? undefined : this.#sql.one.get(key.id);
    const subscription = row === undefined ? undefined : this.#o.cache.byId(row.subscriptionId);
    if (row === undefined || subscription === undefined || row.nonce !== key?.nonce) throw noDelivery();
    return { row, subscription };
  }
}

/** By the id of the content. */
type FirstEvents = ReadonlyMap<number, EventHead>;

/** Whether all scopes of its events are open to the caller. */
function mayRead({ scopes: open }: Caller, { scopes }: ListedRow): boolean {
  return (JSON.parse(scopes) as Caller['scopes']).every((scope) => open.includes(scope));
}

/** undefined: not a delivery's id. */
function deliveryKeyOf(deliveryId: string): Pick<PendingDelivery, 'id' | 'nonce'> | undefined {
  const [, id = '', nonce = ''] = /^([1-9]\d{0,14})-([0-9a-f]{16})$/.exec(deliveryId) ?? [];
  return nonce === '' ? undefined : { id: Number(id), nonce };
}

/** Without the answer: lists hold no bodies. */
function lastAttempt({ attempt, at, elapsedMs, status, cause, message }: ListedRow): Attempt | null {
  if (attempt === null || at === null || elapsedMs === null || cause === null || message === null) return null;
  return attemptView({ attempt, at, elapsedMs, status, cause, message, answer: null });
}

function attemptView({ status, cause, answer, ...attempt }: AttemptRow): Attempt {
  return {
    ...attempt,
    statusCode: status,
    cause: cause === '' ? null : cause,
    responseBody: answer === null ? null : textOf(answer),
  };
}

/** The answer may be cut inside a character, which is left out. Invalid UTF-8 becomes U+FFFD. */
function textOf(answer: Buffer): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(answer, { stream: true });
}

function noDelivery(): LinesideError {
  return new LinesideError('NOT_FOUND', 'there is no such delivery', {
    hint: 'Delivered ones are removed after webhooks.keep_delivered_days, others after webhooks.keep_failed_days.',
  });
}
