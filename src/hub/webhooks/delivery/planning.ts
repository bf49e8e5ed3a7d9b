/**
 * Which deliveries events become: of each transaction one for each subscription that takes something of it, split where it
 * would become too large; and who events are planned for. Pure.
 */

import type { Instant } from '../../../shared/base/instant.ts';
import type { Scope } from '../../outbox/event.ts';
import type { SubscriptionSource } from '../subscriptions/cache.ts';
import { type EventKind, filterOf } from '../subscriptions/filter.ts';
import type { Subscription } from '../subscriptions/subscription.ts';

/** One event as the planner sees it. */
export interface EventHead extends EventKind {
  readonly id: number;
  readonly txTime: Instant;
  /** Of its stored text: not less than its element in a delivery has. */
  readonly bytes: number;
}

/** Which events a delivery has. */
export interface PlannedDelivery {
  readonly firstEvent: number;
  readonly lastEvent: number;
  readonly events: number;
}

/** An active subscription, by those of its scopes that are open to its consumer. */
export interface Recipient {
  readonly subscription: Subscription;
  /** Of its scopes, those that are open. */
  readonly scopes: readonly Scope[];
  readonly takes: (kind: EventKind) => boolean;
}

/** A delivery to be, whose body template is still to be found. */
export interface Draft extends PlannedDelivery {
  readonly recipient: Recipient;
  /** Of its events. */
  readonly scopes: ReadonlySet<Scope>;
}

const maxDeliveryEvents = 500;
/** Of a body; a larger event is sent alone. */
const maxDeliveryBytes = 1024 * 1024;
/** What a body has besides its events: a name of 128 characters may be escaped. */
const frameBytes = 512;

interface OpenDraft extends Draft {
  lastEvent: number;
  events: number;
  bytes: number;
  readonly scopes: Set<Scope>;
}

/** Fed with the heads of events in the order of their ids, all of them. */
export class Planning {
  #txTime = '';
  #seenTo: number;
  #wholeTo: number;
  #whole: Draft[] = [];
  /** Of the transaction that is being read. */
  readonly #open = new Map<Recipient, OpenDraft>();
  readonly #filled: Draft[] = [];

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

  add(head: EventHead, recipients: readonly Recipient[]): void {
    if (head.txTime !== this.#txTime) this.#endTransaction();
    this.#txTime = head.txTime;
    this.#seenTo = head.id;
    for (const recipient of recipients) if (head.id > recipient.subscription.afterEvent) this.#put(head, recipient);
  }

  /** Nothing is behind the event fed last, up to `lastEvent` at least: events that were for no subscription may be gone. */
  end(lastEvent: number): void {
    this.#seenTo = Math.max(this.#seenTo, lastEvent);
    this.#endTransaction();
  }

  /** The deliveries of whole transactions, up to `wholeTo`; they are handed out once. */
  claim(): readonly Draft[] {
    const claim = this.#whole;
    this.#whole = [];
    return claim;
  }

  #endTransaction(): void {
    const drafts = [...this.#filled.splice(0), ...this.#open.values()];
    this.#open.clear();
    // The ids of deliveries follow: no first event is before that of a delivery with a lower id.
    drafts.sort((a, b) => a.firstEvent - b.firstEvent || a.recipient.subscription.id - b.recipient.subscription.id);
    for (const draft of drafts) this.#whole.push(draft);
    this.#wholeTo = this.#seenTo;
  }

  #put({ id, bytes, scope }: EventHead, recipient: Recipient): void {
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

/** Kinds of events that are remembered: a dictionary has some ten; each costs some 200 bytes and its takers. */
const maxKinds = 10_000;

/** Which recipients take an event, as they were at one moment. Events are many and their kinds are few: the filters are asked once for each kind. */
export class Recipients {
  readonly #all: readonly Recipient[];
  readonly #byKind = new Map<string, readonly Recipient[]>();

  constructor(all: readonly Recipient[]) {
    this.#all = all;
  }

  get none(): boolean {
    return this.#all.length === 0;
  }

  of(kind: EventKind): readonly Recipient[] {
    // None of the four has a line feed in it.
    const key = `${kind.scope}\n${kind.category}\n${kind.action}\n${kind.dictionary}`;
    const known = this.#byKind.get(key);
    if (known !== undefined) return known;
    if (this.#byKind.size >= maxKinds) this.#byKind.clear();
    const recipients = this.#all.filter(({ takes }) => takes(kind));
    this.#byKind.set(key, recipients);
    return recipients;
  }
}

/** As they are now. */
export function recipientsIn(cache: SubscriptionSource): Recipients {
  const active = cache.all().filter((subscription) => subscription.active);
  const recipients = active.map((subscription) => {
    const scopes = cache.openScopes(subscription);
    return { subscription, scopes, takes: filterOf({ ...subscription, scopes }) };
  });
  return new Recipients(recipients.filter(({ scopes }) => scopes.length > 0));
}
