/** Deliveries for those who look after them: by pages, each with its attempts, and sent again. */
import type { ChangeStore } from '../outbox/change-store.ts';
import type { Page } from '../outbox/face.ts';
import { type Bodies, madeBody } from './body-made.ts';
import type { Caller, Delivery, DeliveryDetail, DeliveryQuery, ResendRange, WebhookAdmin } from './face.ts';
import type { Known, SubscriptionBook } from './parts.ts';
import { readable } from './readable.ts';
import { chosenOf, ResendAll, rangeFaults } from './resend-all.ts';
import { Resendable } from './resendable.ts';
import { type ListedRow, ReviewRows, sourceOf, type Wanted } from './review-rows.ts';
import { deliveryKeyOf, eventsGone, noDelivery, shownAttempt, shownDelivery, waitsAlready } from './review-shown.ts';
import { type RunningTime, saveRunning } from './running-time.ts';
import { changeReasonFaults } from './subscription.ts';
import { idOf, noCursor, noSubscription, refuse, subjectOf } from './subscription-refusals.ts';

export interface ReviewOptions {
  readonly store: ChangeStore;
  readonly book: SubscriptionBook;
  readonly bodies: Bodies;
  readonly running: RunningTime;
  /** Told after the commit. */
  readonly dispatcher: { resent(subscriptionId: number): void };
  /** Told within the transaction: no event from this one on may leave the outbox (kept-events.ts). */
  readonly needs: { mayNeed(firstEvent: number): void };
}

export type Review = Pick<WebhookAdmin, 'deliveries' | 'delivery' | 'resend' | 'resendAll'>;

/** Rows looked at for one page, some 5 ms: a page of a rare state may be short. */
const pageLooked = 20_000;
/** Looked at in one step towards that: a page without a filter ends in the first. */
const stepLooked = 2_000;

export function createReview(options: ReviewOptions): Review {
  return new Reviewer(options);
}

class Reviewer implements Review {
  readonly #o: ReviewOptions;
  readonly #rows: ReviewRows;
  readonly #resendable: Resendable;
  readonly #all: ResendAll;
  readonly #save: (running: RunningTime) => void;

  constructor(options: ReviewOptions) {
    const { connection } = options.store;
    this.#o = options;
    this.#rows = new ReviewRows(connection);
    this.#resendable = new Resendable(this.#rows, options.bodies, connection);
    this.#all = new ResendAll({ ...options, rows: this.#rows, resendable: this.#resendable });
    this.#save = saveRunning(connection);
  }

  deliveries({ limit, cursor, state, subscription }: DeliveryQuery): Page<Delivery> {
    const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : idOf(cursor);
    if (before === undefined) throw noCursor();
    const id = subscription === undefined ? undefined : idOf(subscription);
    const known = this.#o.book.all().filter((one) => subscription === undefined || one.id === id);
    if (known.length === 0) return { items: [], nextCursor: undefined };
    const wanted = { subscriptions: known.map((one) => one.id), state };
    const { rows, next } = readable(this.#o.store, () => this.#page(wanted, before, limit));
    return { items: rows.map((row) => this.#shown(row)), nextCursor: next === undefined ? undefined : String(next) };
  }

  /** `next`: what the next page is behind; undefined: this is the last. */
  #page(
    wanted: Wanted,
    before: number,
    limit: number,
  ): { readonly rows: readonly ListedRow[]; readonly next: number | undefined } {
    const found: ListedRow[] = [];
    let from = before;
    for (let looked = 0; looked < pageLooked; looked += stepLooked) {
      const end = this.#rows.endDown(sourceOf(wanted.state), from, stepLooked);
      // One more than is shown: whether another page follows.
      found.push(...this.#rows.page(wanted, { before: from, end: end ?? 0 }, limit + 1 - found.length));
      if (found.length > limit) return { rows: found.slice(0, limit), next: found[limit - 1]?.id };
      if (end === undefined) return { rows: found, next: undefined };
      from = end;
    }
    return { rows: found, next: from };
  }

  #shown(row: ListedRow): Delivery {
    const { book, running } = this.#o;
    return shownDelivery(row, book.byId(row.subscriptionId)?.name ?? '', running.now());
  }

  delivery(caller: Caller, deliveryId: string): DeliveryDetail {
    return readable(this.#o.store, () => {
      const { row } = this.#find(deliveryId);
      const shown = this.#shown(row);
      const form = this.#o.bodies.formOf(row.formId);
      const mayRead = form?.scopes.every((scope) => caller.scopes.includes(scope)) === true;
      // An answer may quote what was sent.
      const attemptList = this.#rows
        .attempts(row.id)
        .map((attempt) => shownAttempt(mayRead ? attempt : { ...attempt, answer: null }));
      const last = attemptList.at(-1);
      const lastAttempt = last?.attempt === row.attempts ? last : null;
      return { ...shown, lastAttempt, body: mayRead ? this.#text(row) : null, attemptList };
    });
  }

  #text(row: ListedRow): string | null {
    const made = madeBody(this.#o.bodies, this.#o.store.connection, row);
    return 'lacking' in made ? null : made.body.toString('utf8');
  }

  /** Throws NOT_FOUND. A deleted subscription's deliveries are gone for everyone. */
  #find(deliveryId: string): { readonly row: ListedRow; readonly known: Known } {
    const key = deliveryKeyOf(deliveryId);
    const row = key === undefined ? undefined : this.#rows.one(key.id);
    const known = row === undefined ? undefined : this.#o.book.byId(row.subscriptionId);
    if (row === undefined || known === undefined || row.nonce !== key?.nonce) throw noDelivery();
    return { row, known };
  }

  async resend(caller: Caller, deliveryId: string, reason: string): Promise<Delivery> {
    refuse('the delivery cannot be sent again', changeReasonFaults(reason));
    const { store, dispatcher, running, needs } = this.#o;
    const { shown, subscriptionId } = await store.maintain((audit) => {
      const { row, known } = this.#find(deliveryId);
      if (row.endedAt === null) throw waitsAlready(deliveryId);
      const { lacking } = this.#resendable.judge(row);
      if (lacking !== '') throw eventsGone(deliveryId, lacking);
      this.#rows.resend(row, running.now());
      needs.mayNeed(row.firstEvent);
      this.#save(running);
      const about = { subscription: known.id, deliveries: 1, deliveryId, state: row.state, changeReason: reason };
      audit(store.now(), caller.name, 'webhook.resent', subjectOf(known), about);
      return { shown: this.#shown(this.#find(deliveryId).row), subscriptionId: known.id };
    }, 'promised');
    dispatcher.resent(subscriptionId);
    return shown;
  }

  async resendAll(
    caller: Caller,
    id: string,
    range: ResendRange,
    reason: string,
  ): Promise<{ readonly deliveries: number }> {
    const known = this.#o.book.byId(idOf(id) ?? 0);
    if (known === undefined) throw noSubscription();
    refuse('the deliveries cannot be sent again', [...rangeFaults(range), ...changeReasonFaults(reason)]);
    return { deliveries: await this.#all.run(caller, known, chosenOf(range), reason) };
  }
}
