/** Deliveries for those who look after them: by pages, each with its attempts, and sent again. */

import { LinesideError } from '../../../shared/base/errors.ts';
import { type Instant, parseInstant } from '../../../shared/base/instant.ts';
import type { Audit, ChangeStore } from '../../outbox/change-store.ts';
import type { Page } from '../../outbox/paging.ts';
import { type Bodies, madeBody } from '../delivery/body-made.ts';
import {
  type Caller,
  type Delivery,
  type DeliveryDetail,
  type DeliveryQuery,
  type ResendRange,
  reviewStates,
  type WebhookAdmin,
} from '../face.ts';
import type { Subscription, SubscriptionCache } from '../parts.ts';
import { type RunningTime, saveRunning } from '../running-time.ts';
import { idOf, noCursor, noSubscription, refuse, subjectOf } from '../subscriptions/refusals.ts';
import { changeReasonFaults } from '../subscriptions/rules.ts';
import { attemptView, deliveryKeyOf, deliveryView, eventsGone, noDelivery, waitsAlready } from './delivery-view.ts';
import { readable } from './readable.ts';
import { Resendable } from './resendable.ts';
import {
  type DeliveryFilter,
  type DeliveryRow,
  type ListedRow,
  type ResendSelection,
  ReviewRows,
  sourceOf,
} from './review-rows.ts';

export interface ReviewOptions {
  readonly store: ChangeStore;
  readonly cache: SubscriptionCache;
  readonly bodies: Bodies;
  readonly running: RunningTime;
  /** Told after the commit. */
  readonly dispatcher: { resent(subscriptionId: number): void };
  /** Told within the transaction: no event from this one on may leave the outbox (retained-events.ts). */
  readonly retained: { retainFrom(firstEvent: number): void };
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

  deliveries({ limit, cursor, state, subscription: of }: DeliveryQuery): Page<Delivery> {
    const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : idOf(cursor);
    if (before === undefined) throw noCursor();
    const id = of === undefined ? undefined : idOf(of);
    const listed = this.#o.cache.all().filter((one) => of === undefined || one.id === id);
    if (listed.length === 0) return { items: [], nextCursor: undefined };
    const wanted = { subscriptions: listed.map((one) => one.id), state };
    const { rows, next } = readable(this.#o.store, () => this.#page(wanted, before, limit));
    return { items: rows.map((row) => this.#view(row)), nextCursor: next === undefined ? undefined : String(next) };
  }

  /** `next`: what the next page is behind; undefined: this is the last. */
  #page(
    wanted: DeliveryFilter,
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

  #view(row: ListedRow): Delivery {
    const { cache, running } = this.#o;
    return deliveryView(row, cache.byId(row.subscriptionId)?.name ?? '', running.now());
  }

  delivery(caller: Caller, deliveryId: string): DeliveryDetail {
    return readable(this.#o.store, () => {
      const { row } = this.#find(deliveryId);
      const view = this.#view(row);
      const template = this.#o.bodies.templateOf(row.templateId);
      const mayRead = template?.scopes.every((scope) => caller.scopes.includes(scope)) === true;
      // An answer may quote what was sent.
      const attemptList = this.#rows
        .attempts(row.id)
        .map((attempt) => attemptView(mayRead ? attempt : { ...attempt, answer: null }));
      const last = attemptList.at(-1);
      const lastAttempt = last?.attempt === row.attempts ? last : null;
      return { ...view, lastAttempt, body: mayRead ? this.#text(row) : null, attemptList };
    });
  }

  #text(row: ListedRow): string | null {
    const made = madeBody(this.#o.bodies, this.#o.store.connection, row);
    return 'unavailable' in made ? null : made.body.toString('utf8');
  }

  /** Throws NOT_FOUND. A deleted subscription's deliveries are gone for everyone. */
  #find(deliveryId: string): { readonly row: ListedRow; readonly subscription: Subscription } {
    const key = deliveryKeyOf(deliveryId);
    const row = key === undefined ? undefined : this.#rows.one(key.id);
    const subscription = row === undefined ? undefined : this.#o.cache.byId(row.subscriptionId);
    if (row === undefined || subscription === undefined || row.nonce !== key?.nonce) throw noDelivery();
    return { row, subscription };
  }

  async resend(caller: Caller, deliveryId: string, reason: string): Promise<Delivery> {
    refuse('the delivery cannot be sent again', changeReasonFaults(reason));
    const { store, dispatcher, running, retained } = this.#o;
    const { view, subscriptionId } = await store.maintain((audit) => {
      const { row, subscription } = this.#find(deliveryId);
      if (row.endedAt === null) throw waitsAlready(deliveryId);
      const { unavailable } = this.#resendable.judge(row);
      if (unavailable !== '') throw eventsGone(deliveryId, unavailable);
      this.#rows.resend(row, running.now());
      retained.retainFrom(row.firstEvent);
      this.#save(running);
      const about = {
        subscription: subscription.id,
        deliveries: 1,
        deliveryId,
        state: row.state,
        changeReason: reason,
      };
      audit(store.now(), caller.name, 'webhook.resent', subjectOf(subscription), about);
      return { view: this.#view(this.#find(deliveryId).row), subscriptionId: subscription.id };
    }, 'promised');
    dispatcher.resent(subscriptionId);
    return view;
  }

  async resendAll(
    caller: Caller,
    id: string,
    range: ResendRange,
    reason: string,
  ): Promise<{ readonly deliveries: number }> {
    const subscription = this.#o.cache.byId(idOf(id) ?? 0);
    if (subscription === undefined) throw noSubscription();
    refuse('the deliveries cannot be sent again', [...rangeFaults(range), ...changeReasonFaults(reason)]);
    return { deliveries: await this.#all.run(caller, subscription, chosenOf(range), reason) };
  }
}

// Deliveries of a subscription and a time, sent again: in slices, each a transaction with its audit, the loop free between them.

type EndState = NonNullable<ResendRange['states']>[number];
const endStates: readonly string[] = ['rejected', 'failed', 'delivered'] satisfies readonly EndState[];

/** Put among those that wait in one transaction: some 10 ms. */
const sliceDeliveries = 500;
/** Rows looked at to find them: some 2 ms. */
const sliceLooked = 5_000;
/** Events looked at in one transaction, so that none holds the loop for its deliveries of a large import. */
const sliceEvents = 20_000;

interface Chosen {
  readonly from: Instant | undefined;
  readonly to: Instant | undefined;
  readonly states: readonly EndState[];
}

interface ResendAllOptions {
  readonly store: ChangeStore;
  readonly cache: SubscriptionCache;
  readonly rows: ReviewRows;
  readonly resendable: Resendable;
  readonly running: RunningTime;
  readonly retained: { retainFrom(firstEvent: number): void };
  readonly dispatcher: { resent(subscriptionId: number): void };
}

/** Every fault of a range; empty: none. */
function rangeFaults({ from, to, states }: ResendRange): readonly string[] {
  const isTime = (text: string | undefined): boolean => text === undefined || parseInstant(text) !== undefined;
  const faults = [
    ...(isTime(from) ? [] : ['/from must be an RFC 3339 date-time with an offset']),
    ...(isTime(to) ? [] : ['/to must be an RFC 3339 date-time with an offset']),
    ...(states?.length === 0 ? ['/states must not be empty'] : []),
    ...(states ?? []).flatMap((state, at) =>
      endStates.includes(state) ? [] : [`/states/${at} must be one of ${endStates.join(', ')}`],
    ),
  ];
  const [begin, end] = [from, to].map((text) => (text === undefined ? undefined : parseInstant(text)));
  const isEmpty = begin !== undefined && end !== undefined && begin >= end;
  return isEmpty ? [...faults, '/to must be after /from'] : faults;
}

/** Of a range without faults. */
function chosenOf({ from, to, states = reviewStates }: ResendRange): Chosen {
  return {
    from: from === undefined ? undefined : parseInstant(from),
    to: to === undefined ? undefined : parseInstant(to),
    states: [...new Set(states)],
  };
}

class ResendAll {
  readonly #o: ResendAllOptions;
  readonly #save: (running: RunningTime) => void;
  /** Ids of the subscriptions for which it is under way. */
  readonly #running = new Set<number>();

  constructor(options: ResendAllOptions) {
    this.#o = options;
    this.#save = saveRunning(options.store.connection);
  }

  /** Answers how many. Those that end meanwhile are not among them. */
  async run(caller: Caller, subscription: Subscription, chosen: Chosen, reason: string): Promise<number> {
    if (this.#running.has(subscription.id)) {
      throw new LinesideError('TOO_MANY', 'deliveries of this subscription are being sent again already', {
        hint: 'Wait for that to end: webhook.resent in the audit tells how far it is.',
      });
    }
    this.#running.add(subscription.id);
    try {
      return await this.#walk({ caller, subscription, chosen, reason });
    } finally {
      this.#running.delete(subscription.id);
    }
  }

  async #walk(by: Request): Promise<number> {
    const { store, cache, rows } = this.#o;
    const { id } = by.subscription;
    const upTo = readable(store, () => rows.newest());
    const found: DeliveryRow[] = [];
    let count = 0;
    for (const state of by.chosen.states) {
      const meant: ResendSelection = { ...by.chosen, subscriptionId: id, state };
      for (let after = 0; after < upTo && cache.byId(id) !== undefined; ) {
        const slice = readable(store, () => this.#slice(meant, after, upTo));
        after = slice.end;
        found.push(...slice.rows);
        while (found.length >= sliceDeliveries) count += await this.#commit(by, found);
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    while (found.length > 0) count += await this.#commit(by, found);
    return count;
  }

  #slice(
    meant: ResendSelection,
    after: number,
    upTo: number,
  ): { readonly rows: readonly DeliveryRow[]; readonly end: number } {
    const { rows } = this.#o;
    const end = Math.min(upTo, rows.endUp(sourceOf(meant.state), after, sliceLooked) ?? upTo);
    const found = rows.slice(meant, { after, end }, sliceDeliveries);
    return { rows: found, end: found.length < sliceDeliveries ? end : (found.at(-1)?.id ?? end) };
  }

  /** Takes the first of what was found, one transaction's worth. Answers how many of them were sent again. */
  async #commit(by: Request, found: DeliveryRow[]): Promise<number> {
    const { store, dispatcher } = this.#o;
    const { resent, done } = await store.maintain(
      (audit) => this.#write(by, found.slice(0, sliceDeliveries), audit),
      'promised',
    );
    found.splice(0, done);
    if (resent > 0) dispatcher.resent(by.subscription.id);
    if (found.length > 0) await new Promise((resolve) => setImmediate(resolve));
    return resent;
  }

  /** In the transaction, with its audit. */
  #write(by: Request, slice: readonly DeliveryRow[], audit: Audit): { readonly resent: number; readonly done: number } {
    const { store, cache, rows, resendable, running, retained } = this.#o;
    const { caller, subscription, chosen, reason } = by;
    // Deleted while this waited for its turn to write.
    if (cache.byId(subscription.id) === undefined) return { resent: 0, done: slice.length };
    const resent: DeliveryRow[] = [];
    let [done, looked] = [0, 0];
    for (const row of slice) {
      const checked = resendable.judge(row);
      if (checked.unavailable === '' && rows.resend(row, running.now())) resent.push(row);
      looked += checked.looked;
      done++;
      if (looked >= sliceEvents) break;
    }
    if (resent.length > 0) {
      retained.retainFrom(
        resent.reduce((least, { firstEvent }) => Math.min(least, firstEvent), Number.POSITIVE_INFINITY),
      );
      this.#save(running);
      const { from = null, to = null, states } = chosen;
      const about = {
        subscription: subscription.id,
        deliveries: resent.length,
        from,
        to,
        states,
        changeReason: reason,
      };
      audit(store.now(), caller.name, 'webhook.resent', subjectOf(subscription), about);
    }
    return { resent: resent.length, done };
  }
}

interface Request {
  readonly caller: Caller;
  readonly subscription: Subscription;
  readonly chosen: Chosen;
  readonly reason: string;
}
