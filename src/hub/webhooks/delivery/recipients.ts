/** Who events are planned for: the active subscriptions, each by those of its scopes that are open to its consumer. */
import type { Scope } from '../../outbox/event.ts';
import type { Subscription, SubscriptionCache } from '../parts.ts';
import { type EventKind, filterOf, RecipientIndex } from '../subscriptions/filter.ts';
import type { PlanningTarget } from './planning.ts';

export interface Recipient extends PlanningTarget {
  readonly subscription: Subscription;
  /** Of its scopes, those that are open. */
  readonly scopes: readonly Scope[];
  readonly takes: (kind: EventKind) => boolean;
}

/** As they were at one moment. */
export interface Recipients {
  readonly index: RecipientIndex<Recipient>;
}

export class RecipientList {
  readonly #cache: SubscriptionCache;
  /** undefined: they have changed. */
  #current: Recipients | undefined;

  constructor(cache: SubscriptionCache) {
    this.#cache = cache;
    cache.onChanged(() => {
      this.#current = undefined;
    });
  }

  current(): Recipients {
    if (this.#current !== undefined) return this.#current;
    const active = this.#cache.all().filter((subscription) => subscription.active);
    const recipients = active.map((subscription) => recipientOf(subscription, this.#cache));
    this.#current = { index: new RecipientIndex(recipients.filter(({ scopes }) => scopes.length > 0)) };
    return this.#current;
  }

  isCurrent(recipients: Recipients): boolean {
    return recipients === this.#current;
  }
}

function recipientOf(subscription: Subscription, cache: SubscriptionCache): Recipient {
  const open = new Set(cache.openScopes(subscription));
  const scopes = subscription.scopes.filter((scope) => open.has(scope));
  const takes = filterOf({ ...subscription, scopes });
  return { subscriptionId: subscription.id, afterEvent: subscription.afterEvent, subscription, scopes, takes };
}
