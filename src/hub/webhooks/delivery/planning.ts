/**
 * Which deliveries events become: for each transaction one for each subscription that takes some of its events, split when
 * they are too many; and the recipients of an event. Pure.
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

/** An active subscription, by those of its scopes that are open to its consumer. */
export interface Recipient {
  readonly subscription: Subscription;
  readonly takes: (kind: EventKind) => boolean;
}

/** A delivery to be: events of one transaction. */
export interface Draft {
  readonly subscription: Subscription;
  /** Ascending ids. */
  readonly events: readonly number[];
  /** Of its events. */
  readonly scopes: ReadonlySet<Scope>;
}

/** Of a delivery's events. A larger event is sent alone. 512: a body without its events; a name of 128 characters may be escaped. */
const maxBytes = 1024 * 1024 - 512;

interface OpenDraft extends Draft {
  readonly events: number[];
  readonly scopes: Set<Scope>;
  bytes: number;
}

/** The deliveries of one transaction. */
export class TransactionDrafts {
  readonly #open = new Map<Subscription, OpenDraft>();

  /** In the order of their ids. Answers the deliveries that are full. */
  add({ id, bytes, scope }: EventHead, recipients: readonly Recipient[]): readonly Draft[] {
    const comma = 1;
    const added = bytes + comma;
    const full: Draft[] = [];
    for (const { subscription } of recipients) {
      if (id <= subscription.afterEvent) continue;
      let draft = this.#open.get(subscription);
      if (draft !== undefined && draft.bytes + added > maxBytes) {
        full.push(draft);
        draft = undefined;
      }
      if (draft === undefined) {
        draft = { subscription, events: [], scopes: new Set(), bytes: 0 };
        this.#open.set(subscription, draft);
      }
      draft.events.push(id);
      draft.scopes.add(scope);
      draft.bytes += added;
      if (draft.events.length < maxDeliveryEvents) continue;
      full.push(draft);
      this.#open.delete(subscription);
    }
    return full;
  }

  get isEmpty(): boolean {
    return this.#open.size === 0;
  }

  /** The others, in the order of their first events. */
  end(): readonly Draft[] {
    const others = [...this.#open.values()];
    this.#open.clear();
    return others;
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
  const recipients = active.flatMap((subscription) => {
    const scopes = cache.openScopes(subscription);
    return scopes.length === 0 ? [] : [{ subscription, takes: filterOf({ ...subscription, scopes }) }];
  });
  return new Recipients(recipients);
}
