/**
 * Which deliveries events become: for each transaction one for each subscription that takes some of its events, split when
 * they are too many; and the recipients of an event. Pure.
 */

import type { Instant } from '../../../shared/base/instant.ts';
import type { Scope } from '../../outbox/event.ts';
import { maxDeliveryEvents } from '../face.ts';
import type { SubscriptionSource } from '../subscriptions/cache.ts';
import { type EventKind, filterOf, type Subscription } from '../subscriptions/subscription.ts';

export interface EventHead extends EventKind {
  readonly id: number;
  readonly txTime: Instant;
  /** Of its stored text, which is at least as long as its element in a delivery. */
  readonly bytes: number;
}

/** An active subscription, by those of its scopes that are open to its consumer. */
export interface Recipient {
  readonly subscription: Subscription;
  readonly takes: (kind: EventKind) => boolean;
}

/** Deliveries to be, with the same events of one transaction: one for each of these subscriptions. */
export interface Draft {
  readonly subscriptions: readonly Subscription[];
  /** Ascending ids. */
  readonly events: readonly number[];
  /** Of its events. */
  readonly scopes: ReadonlySet<Scope>;
}

/** Of a delivery's events. A larger event is sent alone. 512: a body without its events; a name of 128 characters may be escaped. */
const maxBytes = 1024 * 1024 - 512;

const commaBytes = 1;

interface OpenDraft extends Draft {
  subscriptions: readonly Subscription[];
  readonly events: number[];
  readonly scopes: Set<Scope>;
  bytes: number;
}

/** The deliveries of one transaction. Subscriptions share a draft while they take the same events. */
export class TransactionDrafts {
  readonly #open = new Map<Subscription, OpenDraft>();

  /** In the order of their ids. Answers the deliveries that are full. */
  add(head: EventHead, recipients: readonly Subscription[]): readonly Draft[] {
    const takers = recipients.filter(({ afterEvent }) => head.id > afterEvent);
    const full: Draft[] = [];
    const beginners: Subscription[] = [];
    for (const [draft, subscriptions] of Map.groupBy(takers, (one) => this.#open.get(one))) {
      if (draft !== undefined && draft.bytes + head.bytes + commaBytes <= maxBytes) {
        this.#extend(this.#split(draft, subscriptions), head, full);
      } else {
        if (draft !== undefined) full.push(this.#split(draft, subscriptions));
        beginners.push(...subscriptions);
      }
    }
    if (beginners.length > 0) this.#extend(this.#begin(beginners), head, full);
    return full;
  }

  get isEmpty(): boolean {
    return this.#open.size === 0;
  }

  /** The others, in the order of their first events. */
  end(): readonly Draft[] {
    const others = [...new Set(this.#open.values())];
    this.#open.clear();
    return others;
  }

  #begin(subscriptions: readonly Subscription[], from?: OpenDraft): OpenDraft {
    const { events = [], scopes = [], bytes = 0 } = from ?? {};
    const draft = { subscriptions, events: [...events], scopes: new Set(scopes), bytes };
    for (const subscription of subscriptions) this.#open.set(subscription, draft);
    return draft;
  }

  /** The draft of these subscriptions alone, which may have shared it with others. */
  #split(draft: OpenDraft, subscriptions: readonly Subscription[]): OpenDraft {
    if (subscriptions.length === draft.subscriptions.length) return draft;
    const leaving = new Set(subscriptions);
    draft.subscriptions = draft.subscriptions.filter((one) => !leaving.has(one));
    return this.#begin(subscriptions, draft);
  }

  #extend(draft: OpenDraft, { id, bytes, scope }: EventHead, full: Draft[]): void {
    draft.events.push(id);
    draft.scopes.add(scope);
    draft.bytes += bytes + commaBytes;
    if (draft.events.length < maxDeliveryEvents) return;
    full.push(draft);
    for (const subscription of draft.subscriptions) this.#open.delete(subscription);
  }
}

/** Cached kinds of events: a dictionary has some ten, each of some 200 bytes and its recipients. */
const maxKinds = 10_000;

/** A snapshot. Events are many and their kinds few, so each filter is evaluated once for each kind. */
export function recipientsOf(all: readonly Recipient[]) {
  const byKind = new Map<string, readonly Subscription[]>();
  return {
    none: all.length === 0,
    of(kind: EventKind): readonly Subscription[] {
      // No part contains a line feed.
      const key = `${kind.scope}\n${kind.category}\n${kind.action}\n${kind.dictionary}`;
      const known = byKind.get(key);
      if (known !== undefined) return known;
      if (byKind.size >= maxKinds) byKind.clear();
      const recipients = all.filter(({ takes }) => takes(kind)).map(({ subscription }) => subscription);
      byKind.set(key, recipients);
      return recipients;
    },
  };
}

export type Recipients = ReturnType<typeof recipientsOf>;

export function recipientsIn(cache: SubscriptionSource): Recipients {
  const active = cache.all().filter((subscription) => subscription.active);
  const recipients = active.flatMap((subscription) => {
    const scopes = cache.openScopes(subscription);
    return scopes.length === 0 ? [] : [{ subscription, takes: filterOf({ ...subscription, scopes }) }];
  });
  return recipientsOf(recipients);
}
