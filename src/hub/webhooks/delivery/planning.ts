/**
 * Which deliveries events become: of each transaction one for each subscription that takes something of it, split where it
 * would become too large. Pure.
 */
import type { Scope } from '../../outbox/event.ts';
import type { EventHead, Planned } from '../parts.ts';

/** Who takes events: a subscription. */
export interface PlanningTarget {
  readonly subscriptionId: number;
  /** Events up to this one are not for it. */
  readonly afterEvent: number;
}

/** A delivery to be, whose form is still to be found. */
export interface Draft<T extends PlanningTarget> extends Pick<Planned, 'firstEvent' | 'lastEvent' | 'events'> {
  readonly recipient: T;
  /** Of its events. */
  readonly scopes: ReadonlySet<Scope>;
}

const maxDeliveryEvents = 500;
/** Of a body; an event that is larger by itself goes alone. */
const maxDeliveryBytes = 1024 * 1024;
/** What a body has besides its events: a name of 128 characters may be escaped. */
const frameBytes = 512;

interface OpenDraft<T extends PlanningTarget> extends Draft<T> {
  lastEvent: number;
  events: number;
  bytes: number;
  readonly scopes: Set<Scope>;
}

/** Fed with the heads of events in the order of their ids, all of them. */
export class Planning<T extends PlanningTarget> {
  #txTime = '';
  #seenTo: number;
  #wholeTo: number;
  #whole: Draft<T>[] = [];
  /** Of the transaction that is being read. */
  readonly #open = new Map<T, OpenDraft<T>>();
  readonly #filled: Draft<T>[] = [];

  /** Events up to `after` are planned. */
  constructor(after: number) {
    this.#seenTo = after;
    this.#wholeTo = after;
  }

  /** The last one fed. */
  get seenTo(): number {
    return this.#seenTo;
  }

  /** The last one of a transaction that is whole. */
  get wholeTo(): number {
    return this.#wholeTo;
  }

  /** Deliveries of whole transactions. */
  get drafts(): number {
    return this.#whole.length;
  }

  add(head: EventHead, recipients: readonly T[]): void {
    if (head.txTime !== this.#txTime) this.#endTransaction();
    this.#txTime = head.txTime;
    this.#seenTo = head.id;
    for (const recipient of recipients) if (head.id > recipient.afterEvent) this.#put(head, recipient);
  }

  /** Nothing is behind the event fed last, up to `lastEvent` at least: events that were for no subscription may be gone. */
  end(lastEvent: number): void {
    this.#seenTo = Math.max(this.#seenTo, lastEvent);
    this.#endTransaction();
  }

  /** The deliveries of whole transactions, up to `wholeTo`; they are handed out once. */
  claim(): readonly Draft<T>[] {
    const claim = this.#whole;
    this.#whole = [];
    return claim;
  }

  #endTransaction(): void {
    const drafts = [...this.#filled.splice(0), ...this.#open.values()];
    this.#open.clear();
    // The ids of deliveries follow: no first event is before that of a delivery with a lower id.
    drafts.sort((a, b) => a.firstEvent - b.firstEvent || a.recipient.subscriptionId - b.recipient.subscriptionId);
    for (const draft of drafts) this.#whole.push(draft);
    this.#wholeTo = this.#seenTo;
  }

  #put({ id, bytes, scope }: EventHead, recipient: T): void {
    // With the comma between it and the next one.
    const added = bytes + 1;
    const open = this.#open.get(recipient);
    if (open !== undefined && open.events < maxDeliveryEvents && open.bytes + added <= maxDeliveryBytes) {
      open.lastEvent = id;
      open.events += 1;
      open.bytes += added;
      open.scopes.add(scope);
      return;
    }
    if (open !== undefined) this.#filled.push(open);
    this.#open.set(recipient, {
      recipient,
      firstEvent: id,
      lastEvent: id,
      events: 1,
      bytes: frameBytes + added,
      scopes: new Set([scope]),
    });
  }
}
