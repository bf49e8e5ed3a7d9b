/** Who events are planned for: the active subscriptions, each by those of its scopes that are open to its consumer. */
import type { Scope } from '../outbox/event.ts';
import { filterOf, type Kind, Takers } from './filter.ts';
import type { Known, SubscriptionBook } from './parts.ts';
import type { Taker } from './planning.ts';

export interface Recipient extends Taker {
  readonly known: Known;
  /** Of its scopes, those that are open. */
  readonly scopes: readonly Scope[];
  readonly takes: (kind: Kind) => boolean;
}

/** As they were at one moment. */
export interface Recipients {
  readonly takers: Takers<Recipient>;
}

export class RecipientList {
  readonly #book: SubscriptionBook;
  /** undefined: they have changed. */
  #current: Recipients | undefined;

  constructor(book: SubscriptionBook) {
    this.#book = book;
    book.onChanged(() => {
      this.#current = undefined;
    });
  }

  current(): Recipients {
    if (this.#current !== undefined) return this.#current;
    const active = this.#book.all().filter((known) => known.active);
    const recipients = active.map((known) => recipientOf(known, this.#book));
    this.#current = { takers: new Takers(recipients.filter(({ scopes }) => scopes.length > 0)) };
    return this.#current;
  }

  isCurrent(recipients: Recipients): boolean {
    return recipients === this.#current;
  }
}

function recipientOf(known: Known, book: SubscriptionBook): Recipient {
  const open = new Set(book.openScopes(known));
  const scopes = known.scopes.filter((scope) => open.has(scope));
  const takes = filterOf({ ...known, scopes });
  return { subscriptionId: known.id, afterEvent: known.afterEvent, known, scopes, takes };
}
