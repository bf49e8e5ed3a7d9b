/** To whom anything is sent now: active subscriptions that nothing blocks, and of their deliveries those that are still open to them. */
import type { DispatchRows } from './dispatch-rows.ts';
import type { Due, Known, SubscriptionBook } from './parts.ts';

export class Served {
  readonly #book: SubscriptionBook;
  readonly #rows: Pick<DispatchRows, 'forms'>;
  #known = new Map<number, Known>();
  /** By subscription: forms that name a scope which is not open to its consumer any more. */
  #closed = new Map<number, number[]>();

  constructor(book: SubscriptionBook, rows: Pick<DispatchRows, 'forms'>) {
    this.#book = book;
    this.#rows = rows;
  }

  /** Ascending. */
  get ids(): readonly number[] {
    return [...this.#known.keys()];
  }

  byId(id: number): Known | undefined {
    return this.#known.get(id);
  }

  closedForms(id: number): readonly number[] {
    return this.#closed.get(id) ?? [];
  }

  serves({ subscriptionId, formId }: Pick<Due, 'subscriptionId' | 'formId'>): boolean {
    return this.#known.has(subscriptionId) && !this.closedForms(subscriptionId).includes(formId);
  }

  /** Throws where the forms cannot be read: then it is not known what may be sent, and who is served is known all the same. Answers that it is. */
  refresh(): true {
    const served = this.#book.all().filter((known) => known.active && this.#book.blocked(known) === '');
    this.#known = new Map(served.map((known) => [known.id, known]));
    const closed = new Map<number, number[]>();
    for (const { id, subscriptionId, scopes } of this.#rows.forms()) {
      const known = this.#known.get(subscriptionId);
      if (known === undefined) continue;
      const open = this.#book.openScopes(known);
      if (scopes.every((scope) => open.includes(scope))) continue;
      closed.set(subscriptionId, [...(closed.get(subscriptionId) ?? []), id]);
    }
    this.#closed = closed;
    return true;
  }
}
