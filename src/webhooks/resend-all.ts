/** Deliveries of a subscription and a time, sent again: in slices, each a transaction with its audit, the loop free between them. */
import { LinesideError } from '../base/errors.ts';
import { type Instant, parseInstant } from '../base/instant.ts';
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
      const { store, rows } = this.#o;
      const upTo = readable(store, () => rows.newest());
      const by: Request = { caller, known, chosen, reason };
      let count = 0;
      for (const state of chosen.states) count += await this.#ofState(by, state, upTo);
      return count;
    } finally {
      this.#underWay.delete(known.id);
    }
  }

  async #ofState(by: Request, state: EndState, upTo: number): Promise<number> {
    const { store, book, dispatcher } = this.#o;
    const { id } = by.known;
    const meant: Meant = { ...by.chosen, subscriptionId: id, state };
    let count = 0;
    let after = 0;
    while (after < upTo && book.byId(id) !== undefined) {
      const slice = readable(store, () => this.#slice(meant, after, upTo));
      after = slice.end;
      if (slice.rows.length > 0) {
        const { resent, doneTo } = await store.maintain((audit) => this.#write(by, slice.rows, audit));
        after = doneTo ?? after;
        count += resent;
        if (resent > 0) dispatcher.resent(id);
      }
      await new Promise((resolve) => setImmediate(resolve));
    }
    return count;
  }

  #slice(meant: Meant, after: number, upTo: number): { readonly rows: readonly DeliveryRow[]; readonly end: number } {
    const { rows } = this.#o;
    const end = Math.min(upTo, rows.endUp(sourceOf(meant.state), after, sliceLooked) ?? upTo);
    const found = rows.slice(meant, { after, end }, sliceDeliveries);
    return { rows: found, end: found.length < sliceDeliveries ? end : (found.at(-1)?.id ?? end) };
  }

  /** In the transaction, with its audit. `doneTo`: the events that had to be looked at have ended it before all was done. */
  #write(
    by: Request,
    slice: readonly DeliveryRow[],
    audit: Audit,
  ): { readonly resent: number; readonly doneTo?: number } {
    const { store, book, rows, resendable, running, needs } = this.#o;
    const { caller, known, chosen, reason } = by;
    // Deleted while this waited for its turn to write.
    if (book.byId(known.id) === undefined) return { resent: 0 };
    const resent: DeliveryRow[] = [];
    let looked = 0;
    let doneTo: number | undefined;
    for (const row of slice) {
      const judged = resendable.judge(row);
      if (judged.lacking === '' && rows.resend(row, running.now())) resent.push(row);
      looked += judged.looked;
      if (looked < sliceEvents) continue;
      doneTo = row.id;
      break;
    }
    const [oldest] = resent;
    if (oldest !== undefined) {
      // It has the first event of them all.
      needs.mayNeed(oldest.firstEvent);
      this.#save(running);
      const { from = null, to = null, states } = chosen;
      const about = { subscription: known.id, deliveries: resent.length, from, to, states, changeReason: reason };
      audit(store.now(), caller.name, 'webhook.resent', subjectOf(known), about);
    }
    return { resent: resent.length, ...(doneTo === undefined ? {} : { doneTo }) };
  }
}

interface Request {
  readonly caller: Caller;
  readonly known: Known;
  readonly chosen: Chosen;
  readonly reason: string;
}
