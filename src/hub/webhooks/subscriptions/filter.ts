/** Which events a subscription takes. body-source.ts asks the same of SQL; a test holds the two together. Pure. */
import type { Category } from '../../outbox/event.ts';
import type { Filter } from '../face.ts';
import type { EventHead } from '../parts.ts';

/** All of an event that decides who takes it. */
export type EventKind = Pick<EventHead, 'scope' | 'dictionary' | 'category' | 'action'>;

export const recordCategory = 'dict.record.*' satisfies Category;

/** `actions` are those of records: the steps of definitions and drafts are no such actions, and pass. */
export function filterOf(filter: Filter): (kind: EventKind) => boolean {
  const scopes = new Set<string>(filter.scopes);
  const [dictionaries, actions, categories] = [
    setOf(filter.dictionaries),
    setOf(filter.actions),
    setOf(filter.categories),
  ];
  return ({ scope, dictionary, category, action }) =>
    scopes.has(scope) &&
    (categories?.has(category) ?? true) &&
    (dictionaries?.has(dictionary) ?? true) &&
    (category !== recordCategory || (actions?.has(action) ?? true));
}

function setOf(names: readonly string[] | null): ReadonlySet<string> | undefined {
  return names === null ? undefined : new Set(names);
}

/** Kinds of events that are remembered: a dictionary has some ten; each costs some 200 bytes and its takers. */
const maxKinds = 10_000;

/** Who of many takes an event. Events are many and their kinds are few: the filters are asked once for each kind. */
export class RecipientIndex<T extends { readonly takes: (kind: EventKind) => boolean }> {
  readonly #all: readonly T[];
  readonly #byKind = new Map<string, readonly T[]>();

  constructor(all: readonly T[]) {
    this.#all = all;
  }

  get none(): boolean {
    return this.#all.length === 0;
  }

  of(kind: EventKind): readonly T[] {
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
