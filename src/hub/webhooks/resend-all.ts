/** Deliveries of a subscription and a time, sent again: in slices, each a transaction with its audit, the loop free between them. */
import { LinesideError } from '../../shared/base/errors.ts';
import { type Instant, parseInstant } from '../../shared/base/instant.ts';
import type { Audit, ChangeStore } from '../outbox/change-store.ts';
import { type Caller, type ResendRange, reviewStates } from './face.ts';
import type { Known, SubscriptionBook } from './parts.ts';
import { readable } from './readable.ts';
import type { Resendable } from './resendable.ts';
import { type DeliveryRow, type Meant, type ReviewRows, sourceOf } from './review-rows.ts';
import { type RunningTime, saveRunning } from './running-time.ts';
import { subjectOf } from './subscription-refusals.ts';

type EndState = NonNullable<ResendRange['states']>[number];
const endStates: readonly string[] = ['rejected', 'failed', 'delivered'] satisfies readonly EndState[];

/** Put among those that wait in one transaction: some 10 ms. */
const sliceDeliveries = 500;
/** Rows looked at to find them: some 2 ms. */
const sliceLooked = 5_000;
/** Events looked at in one transaction, so that none holds the loop for its deliveries of a large import. */
const sliceEvents = 20_000;

export interface Chosen {
  readonly from: Instant | undefined;
  readonly to: Instant | undefined;
  readonly states: readonly EndState[];
}

export interface ResendAllOptions {
  readonly store: ChangeStore;
  readonly book: SubscriptionBook;
  readonly rows: ReviewRows;
  readonly resendable: Resendable;
  readonly running: RunningTime;
  readonly needs: { mayNeed(firstEvent: number): void };
  readonly dispatcher: { resent(subscriptionId: number): void };
}

/** Every fault of a range; empty: none. */
export function rangeFaults({ from, to, states }: ResendRange): readonly string[] {
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
export function chosenOf({ from, to, states = reviewStates }: ResendRange): Chosen {
  return {
    from: from === undefined ? undefined : parseInstant(from),
    to: to === undefined ? undefined : parseInstant(to),
    states: [...new Set(states)],
  };
}

export class ResendAll {
  readonly #o: ResendAllOptions;
  readonly #save: (running: RunningTime) => void;
  /** Ids of the subscriptions for which it is under way. */
  readonly #underWay = new Set<number>();

  constructor(options: ResendAllOptions) {
    this.#o = options;
    this.#save = saveRunning(options.store.connection);
  }

  /** Answers how many. Those that end meanwhile are not among them. */
  async run(caller: Caller, known: Known, chosen: Chosen, reason: string): Promise<number> {
    if (this.#underWay.has(known.id)) {
      throw new LinesideError('TOO_MANY', 'deliveries of this subscription are being sent again already', {
        hint: 'Wait for that to end: webhook.resent in the audit tells how far it is.',
      });
    }
    this.#underWay.add(known.id);
    try {
      return await this.#walk({ caller, known, chosen, reason });
    } finally {
      this.#underWay.delete(known.id);
    }
  }

  async #walk(by: Request): Promise<number> {
    const { store, book, rows } = this.#o;
    const { id } = by.known;
    const upTo = readable(store, () => rows.newest());
    const found: DeliveryRow[] = [];
    let count = 0;
    for (const state of by.chosen.states) {
      const meant: Meant = { ...by.chosen, subscriptionId: id, state };
      for (let after = 0; after < upTo && book.byId(id) !== undefined; ) {
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

  #slice(meant: Meant, after: number, upTo: number): { readonly rows: readonly DeliveryRow[]; readonly end: number } {
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
    if (resent > 0) dispatcher.resent(by.known.id);
    if (found.length > 0) await new Promise((resolve) => setImmediate(resolve));
    return resent;
  }

  /** In the transaction, with its audit. */
  #write(by: Request, slice: readonly DeliveryRow[], audit: Audit): { readonly resent: number; readonly done: number } {
    const { store, book, rows, resendable, running, needs } = this.#o;
    const { caller, known, chosen, reason } = by;
    // Deleted while this waited for its turn to write.
    if (book.byId(known.id) === undefined) return { resent: 0, done: slice.length };
    const resent: DeliveryRow[] = [];
    let [done, looked] = [0, 0];
    for (const row of slice) {
      const judged = resendable.judge(row);
      if (judged.lacking === '' && rows.resend(row, running.now())) resent.push(row);
      looked += judged.looked;
      done++;
      if (looked >= sliceEvents) break;
    }
    if (resent.length > 0) {
      needs.mayNeed(resent.reduce((least, { firstEvent }) => Math.min(least, firstEvent), Number.POSITIVE_INFINITY));
      this.#save(running);
      const { from = null, to = null, states } = chosen;
      const about = { subscription: known.id, deliveries: resent.length, from, to, states, changeReason: reason };
      audit(store.now(), caller.name, 'webhook.resent', subjectOf(known), about);
    }
    return { resent: resent.length, done };
  }
}

interface Request {
  readonly caller: Caller;
  readonly known: Known;
  readonly chosen: Chosen;
  readonly reason: string;
}
