/** Sends deliveries that have ended again: one, or those of a subscription and a time. */
import { LinesideError } from '../../../shared/base/errors.ts';
import { type Instant, parseInstant } from '../../../shared/base/instant.ts';
import type { Audit } from '../../outbox/change-store.ts';
import { type Caller, type Delivery, type ResendRange, reviewStates } from '../face.ts';
import { Progress } from '../progress.ts';
import { readable } from '../storage-failure.ts';
import {
  changeReasonFaults,
  idOf,
  noSubscription,
  refuse,
  type Subscription,
  subjectOf,
} from '../subscriptions/subscription.ts';
import type { RetainedEvents } from './retained-events.ts';
import type { Review, ReviewOptions } from './review.ts';
import { type DeliveryRow, type ResendSelection, type ReviewSql, reviewSql, sourceOf } from './review-rows.ts';

export interface ResendOptions extends ReviewOptions {
  readonly review: Review;
  /** Notified after the commit. */
  readonly dispatcher: { resent(subscriptionId: number): void };
  /** Notified within the transaction: no event from this one on may leave the outbox. */
  readonly retained: Pick<RetainedEvents, 'retainFrom'>;
}

type EndState = NonNullable<ResendRange['states']>[number];
const endStates: readonly string[] = ['rejected', 'failed', 'delivered'] satisfies readonly EndState[];

/** Put among those that wait in one transaction: some 10 ms. */
const sliceDeliveries = 500;
/** Rows read to find them: some 2 ms. */
const sliceLooked = 5_000;
/** Events examined in one transaction, so that none holds the loop for its deliveries of a large import. */
const sliceEvents = 20_000;

interface Chosen {
  /** null: from the first, up to the last. */
  readonly from: Instant | null;
  readonly to: Instant | null;
  readonly states: readonly EndState[];
}
/** What it costs to make a body of up to 1 MiB, in events examined. */
const makingEvents = 5_000;

export class Resend {
  readonly #o: ResendOptions;
  readonly #sql: ReviewSql;
  readonly #progress: Progress;
  /** Ids of the subscriptions whose deliveries of a range are being sent again. */
  readonly #running = new Set<number>();

  constructor(options: ResendOptions) {
    this.#o = options;
    this.#sql = reviewSql(options.store.connection);
    this.#progress = new Progress(options.store.connection);
  }

  async resend(caller: Caller, deliveryId: string, reason: string): Promise<Delivery> {
    refuse('the request', changeReasonFaults(reason));
    const { store, dispatcher, running, retained, review } = this.#o;
    const { view, subscriptionId } = await store.maintain((audit) => {
      const { row, subscription } = review.find(deliveryId);
      if (row.endedAt === null) throw waitsAlready(deliveryId);
      const { unavailable } = this.#resendable(row);
      if (unavailable !== '') throw eventsGone(deliveryId, unavailable);
      this.#sql.resend.run({ ...row, dueRunMs: running.now() });
      retained.retainFrom(row.firstEvent);
      this.#progress.saveRunning(running);
      const { id } = subscription;
      const about = { subscription: id, deliveries: 1, deliveryId, state: row.state, changeReason: reason };
      audit(store.now(), caller.name, 'webhook.resent', subjectOf(subscription), about);
      return { view: review.view(review.find(deliveryId).row), subscriptionId: id };
    }, 'promised');
    dispatcher.resent(subscriptionId);
    return view;
  }

  /** In slices, each a transaction with its audit, the loop free between them. Those that end meanwhile are not among them. */
  async resendAll(
    caller: Caller,
    id: string,
    range: ResendRange,
    reason: string,
  ): Promise<{ readonly deliveries: number }> {
    const subscription = this.#o.cache.byId(idOf(id) ?? 0);
    if (subscription === undefined) throw noSubscription();
    const chosen = chosenOf(range, reason);
    if (this.#running.has(subscription.id)) {
      throw new LinesideError('TOO_MANY', 'deliveries of this subscription are being sent again already', {
        hint: 'Wait until they have been: webhook.resent in the audit shows the progress.',
      });
    }
    this.#running.add(subscription.id);
    try {
      return { deliveries: await this.#walk({ caller, subscription, chosen, reason }) };
    } finally {
      this.#running.delete(subscription.id);
    }
  }

  async #walk(by: Request): Promise<number> {
    const { store, cache } = this.#o;
    const { id } = by.subscription;
    const upTo = readable(store, () => this.#sql.newest.get() ?? 0);
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
    const sql = this.#sql.up[sourceOf(meant.state)];
    const end = Math.min(upTo, sql.end.get(after, sliceLooked - 1) ?? upTo);
    const found = sql.slice.all({ ...meant, after, end, limit: sliceDeliveries });
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
    const { store, cache, running, retained } = this.#o;
    const { caller, subscription, chosen, reason } = by;
    // Deleted while this waited for its turn to write.
    if (cache.byId(subscription.id) === undefined) return { resent: 0, done: slice.length };
    const resent: DeliveryRow[] = [];
    let [done, looked] = [0, 0];
    for (const row of slice) {
      const checked = this.#resendable(row);
      if (checked.unavailable === '' && this.#sql.resend.run({ ...row, dueRunMs: running.now() }).changes > 0) {
        resent.push(row);
      }
      looked += checked.looked;
      done++;
      if (looked >= sliceEvents) break;
    }
    if (resent.length > 0) {
      retained.retainFrom(Math.min(...resent.map(({ firstEvent }) => firstEvent)));
      this.#progress.saveRunning(running);
      const about = { subscription: subscription.id, deliveries: resent.length, ...chosen, changeReason: reason };
      audit(store.now(), caller.name, 'webhook.resent', subjectOf(subscription), about);
    }
    return { resent: resent.length, done };
  }

  /**
   * Whether a delivery that has ended can be sent again: its body is kept, or all of its events are. Asked inside the
   * transaction. `unavailable`: '' when it can be, else why not. `looked`: the events that were examined.
   */
  #resendable(row: DeliveryRow): { readonly unavailable: string; readonly looked: number } {
    const { bodies } = this.#o;
    if (bodies.isKept(row.id)) return { unavailable: '', looked: 1 };
    const span = row.lastEvent - row.firstEvent + 1;
    if (this.#sql.events.get(row.firstEvent, row.lastEvent) === span) return { unavailable: '', looked: span };
    // Others' events have gone from between its own, or some of its own have.
    const made = bodies.bodyOf(row);
    return { unavailable: 'unavailable' in made ? made.unavailable : '', looked: span + makingEvents };
  }
}

/** Throws INVALID_ARGUMENT with every fault of the range and of the reason. */
function chosenOf({ from, to, states = reviewStates }: ResendRange, reason: string): Chosen {
  const [begin, end] = [from, to].map((text) => (text === undefined ? null : parseInstant(text)));
  const noTime = (field: string): string => `/${field} must be an RFC 3339 date-time with an offset`;
  refuse('the request', [
    ...(begin === undefined ? [noTime('from')] : []),
    ...(end === undefined ? [noTime('to')] : []),
    ...(states.length === 0 ? ['/states must not be empty'] : []),
    ...states.flatMap((state, at) =>
      endStates.includes(state) ? [] : [`/states/${at} must be one of ${endStates.join(', ')}`],
    ),
    ...(begin && end && begin >= end ? ['/to must be after /from'] : []),
    ...changeReasonFaults(reason),
  ]);
  return { from: begin ?? null, to: end ?? null, states: [...new Set(states)] };
}

interface Request {
  readonly caller: Caller;
  readonly subscription: Subscription;
  readonly chosen: Chosen;
  readonly reason: string;
}

function waitsAlready(deliveryId: string): LinesideError {
  return new LinesideError('CONFLICT', `delivery ${deliveryId} waits already to be sent`, {
    hint: 'nextAttemptInSeconds says when; it is never sent twice at a time.',
  });
}

function eventsGone(deliveryId: string, unavailable: string): LinesideError {
  return new LinesideError('CONFLICT', `delivery ${deliveryId} cannot be sent again: ${unavailable}`, {
    hint: 'What changed can still be read from the records and their history.',
  });
}
