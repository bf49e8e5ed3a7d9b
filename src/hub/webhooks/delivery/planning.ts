/**
 * Which deliveries events become: for each transaction one for each subscription that takes some of its events, split when it
 * becomes too large; and the recipients of an event. Pure.
 */

import type { Instant } from '../../../shared/base/instant.ts';
import type { Scope } from '../../outbox/event.ts';
import { maxDeliveryEvents } from '../face.ts';
import type { SubscriptionSource } from '../subscriptions/cache.ts';
import { type EventKind, filterOf } from '../subscriptions/filter.ts';
import type { Subscription } from '../subscriptions/subscription.ts';

export interface EventHead extends EventKind {
  readonly id: number;
  readonly txTime: Instant;
  /** Of its stored text, which is at least as long as its element in a delivery. */
  readonly bytes: number;
}

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

/** Without its body template. */
export interface Draft extends PlannedDelivery {
  readonly recipient: Recipient;
  /** Of its events. */
  readonly scopes: ReadonlySet<Scope>;
}

/** A larger event is sent alone. */
const maxDeliveryBytes = 1024 * 1024;
/** Of a body without its events; a name of 128 characters may be escaped. */
const frameBytes = 512;

interface OpenDraft extends Draft {
  lastEvent: number;
  events: number;
  bytes: number;
  readonly scopes: Set<Scope>;
}

/** Takes the heads of all events in the order of their ids. */
export class Planning {
  #txTime = '';
  #seenTo: number;
  #wholeTo: number;
  readonly #whole: Draft[] = [];
  /** Of the current transaction. */
  readonly #open = new Map<Recipient, OpenDraft>();
  readonly #filled: Draft[] = [];

  /** Events up to `after` are planned. */
  constructor(after: number) {
    this.#seenTo = after;
    this.#wholeTo = after;
  }

  /** The last event added. */
  get seenTo(): number {
    return this.#seenTo;
  }

  /** The last event of a complete transaction. */
  get wholeTo(): number {
    return this.#wholeTo;
  }

  /** Number of deliveries of complete transactions. */
  get drafts(): number {
    return this.#whole.length;
  }

  add(head: EventHead, recipients: readonly Recipient[]): void {
    if (head.txTime !== this.#txTime) this.#endTransaction();
    this.#txTime = head.txTime;
    this.#seenTo = head.id;
    for (const recipient of recipients) if (head.id > recipient.subscription.afterEvent) this.#put(head, recipient);
  }

  /** No event follows the last one added, up to `lastEvent`: those without recipients may have been removed. */
  end(lastEvent: number): void {
    this.#seenTo = Math.max(this.#seenTo, lastEvent);
    this.#endTransaction();
  }

  /** Takes the deliveries of complete transactions, up to `wholeTo`. */
  claim(): readonly Draft[] {
    return this.#whole.splice(0);
  }

  #endTransaction(): void {
    const drafts = [...this.#filled.splice(0), ...this.#open.values()];
    this.#open.clear();
    // Delivery ids follow this order: the first event never falls as the id rises (RetainedEvents relies on it).
    drafts.sort((a, b) => a.firstEvent - b.firstEvent || a.recipient.subscription.id - b.recipient.subscription.id);
    for (const draft of drafts) this.#whole.push(draft);
    this.#wholeTo = this.#seenTo;
  }

  #put({ id, bytes, scope }: EventHead, recipient: Recipient): void {
    const comma = 1;
    const added = bytes + comma;
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

/** Cached kinds of events: a dictionary has some ten, each of some 200 bytes and its recipients. */
const maxKinds = 10_000;

/** A snapshot. Events are many and their kinds few, so each filter is evaluated once for each kind. */
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
    // No part contains a line feed.
    const key = `${kind.scope}\n${kind.category}\n${kind.action}\n${kind.dictionary}`;
    const known = this.#byKind.get(key);
    if (known !== undefined) return known;
    if (this.#byKind.size >= maxKinds) this.#byKind.clear();
    const recipients = this.#all.filter(({ takes }) => takes(kind));
    this.#byKind.set(key, recipients);
    return recipients;
  }
}

export function recipientsIn(cache: SubscriptionSource): Recipients {
  const active = cache.all().filter((subscription) => subscription.active);
  const recipients = active.map((subscription) => {
    const scopes = cache.openScopes(subscription);
    return { subscription, scopes, takes: filterOf({ ...subscription, scopes }) };
  });
  return new Recipients(recipients.filter(({ scopes }) => scopes.length > 0));
}
