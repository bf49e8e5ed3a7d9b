/** Resends ended deliveries: one, or those of a subscription in a time range. */
import { setImmediate } from 'node:timers/promises';
import { LinesideError } from '../../../shared/base/errors.ts';
import { parseInstant } from '../../../shared/base/instant.ts';
import type { Audit } from '../../outbox/change-store.ts';
import { reasonFaults } from '../../outbox/event.ts';
import type { Dispatcher } from '../delivery/dispatcher.ts';
import { type Caller, type Delivery, type ResendRange, reviewStates } from '../face.ts';
import { Progress } from '../progress.ts';
import { idOf, noSubscription, refuse, type Subscription, subjectOf } from '../subscriptions/subscription.ts';
import type { Review, ReviewOptions } from './review.ts';
import { type DeliveryRow, type ResendSelection, type ReviewSql, reviewSql, sourceOf } from './review-rows.ts';

export interface ResendOptions extends ReviewOptions {
  readonly review: Review;
  /** Called after the commit. */
  readonly dispatcher: Pick<Dispatcher, 'planned'>;
}

type EndState = NonNullable<ResendRange['states']>[number];
const endStates: readonly string[] = ['rejected', 'failed', 'delivered'] satisfies readonly EndState[];

/** Resent in one transaction: some 10 ms. */
const sliceDeliveries = 500;
/** Rows read to find them: some 2 ms. */
const sliceRows = 5_000;

export class Resend {
  readonly #o: ResendOptions;
  readonly #sql: ReviewSql;
  readonly #progress: Progress;
  /** Ids of subscriptions with a range being resent. */
  readonly #running = new Set<number>();

  constructor(options: ResendOptions) {
    this.#o = options;
    this.#sql = reviewSql(options.store.connection);
    this.#progress = new Progress(options.store.connection);
  }

  /** With the same deliveryId and bytes. CONFLICT: it waits already, or its events were removed. Audited as webhook.resent. */
  async resend(caller: Caller, deliveryId: string, reason: string): Promise<Delivery> {
    refuse('the request', reasonFaults(reason));
    const { store, dispatcher, rows, running, review } = this.#o;
    const { view, subscriptionId } = await store.maintain((audit) => {
      const { row, subscription } = review.find(deliveryId);
      if (row.endedAt === null) {
        throw new LinesideError('CONFLICT', `delivery ${deliveryId} waits already to be sent`, {
          hint: 'nextAttemptInSeconds says when; it is never sent twice at a time.',
        });
      }
      if (!rows.hasBody(row)) {
        const message = `delivery ${deliveryId} cannot be sent again: the events of this delivery are not kept any more`;
        throw new LinesideError('CONFLICT', message, {
          hint: 'What changed can still be read from the records and their history.',
        });
      }
      this.#sql.resend.run({ ...row, dueRunMs: running.now() });
      this.#progress.saveRunning(running);
      const { id } = subscription;
      const about = { subscription: id, deliveries: 1, deliveryId, state: row.state, changeReason: reason };
      audit(store.now(), caller.name, 'webhook.resent', subjectOf(subscription), about);
      return { view: review.view(caller, review.find(deliveryId).row), subscriptionId: id };
    }, 'promised');
    dispatcher.planned([subscriptionId]);
    return view;
  }

  /** In slices, each a transaction with its audit, with the event loop free between them. Excludes deliveries that end meanwhile. Audited as webhook.resent. */
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
    const { store, cache, rows } = this.#o;
    const { id } = by.subscription;
    const upTo = store.read(() => rows.sql.newest.get() ?? 0);
    const found: DeliveryRow[] = [];
    let count = 0;
    for (const state of by.chosen.states) {
      const meant: ResendSelection = { ...by.chosen, subscriptionId: id, state };
      for (let after = 0; after < upTo && cache.byId(id) !== undefined; ) {
        const slice = store.read(() => this.#slice(meant, after, upTo));
        after = slice.end;
        found.push(...slice.rows);
        while (found.length >= sliceDeliveries) count += await this.#commit(by, found);
        await setImmediate();
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
    const end = Math.min(upTo, sql.end.get(after, sliceRows - 1) ?? upTo);
    const found = sql.slice.all({ ...meant, after, end, limit: sliceDeliveries });
    return { rows: found, end: found.length < sliceDeliveries ? end : (found.at(-1)?.id ?? end) };
  }

  /** Resends the first slice of `found` and removes it there. Answers how many were resent. */
  async #commit(by: Request, found: DeliveryRow[]): Promise<number> {
    const { store, dispatcher } = this.#o;
    const slice = found.slice(0, sliceDeliveries);
    const resent = await store.maintain((audit) => this.#write(by, slice, audit), 'promised');
    found.splice(0, slice.length);
    if (resent > 0) dispatcher.planned([by.subscription.id]);
    if (found.length > 0) await setImmediate();
    return resent;
  }

  /** In the transaction, with its audit. Answers how many were resent. */
  #write(by: Request, slice: readonly DeliveryRow[], audit: Audit): number {
    const { store, cache, rows, running } = this.#o;
    const { caller, subscription, chosen, reason } = by;
    // Deleted while this commit waited.
    if (cache.byId(subscription.id) === undefined) return 0;
    const resent = slice.filter(
      (row) => rows.hasBody(row) && this.#sql.resend.run({ ...row, dueRunMs: running.now() }).changes > 0,
    ).length;
    if (resent > 0) {
      this.#progress.saveRunning(running);
      const about = { subscription: subscription.id, deliveries: resent, ...chosen, changeReason: reason };
      audit(store.now(), caller.name, 'webhook.resent', subjectOf(subscription), about);
    }
    return resent;
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
    ...reasonFaults(reason),
  ]);
  return { from: begin ?? null, to: end ?? null, states: [...new Set(states)] };
}

interface Chosen extends Pick<ResendSelection, 'from' | 'to'> {
  readonly states: readonly EndState[];
}

interface Request {
  readonly caller: Caller;
  readonly subscription: Subscription;
  readonly chosen: Chosen;
  readonly reason: string;
}
