/** Which events a subscription takes. Pure. */
import { LinesideError } from '../../../shared/base/errors.ts';
import type { Action, Category, Scope } from '../../outbox/event.ts';
import type { Filter } from '../face.ts';

/** The fields of an event that filters read. */
export interface EventKind {
  readonly scope: Scope;
  readonly dictionary: string;
  readonly category: string;
  /** "created", ..., or the eventType of a definition or draft. */
  readonly action: string;
}

export const recordCategory = 'dict.record.*' satisfies Category;

/** `actions` filters record events only. */
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

/** A filter as it is stored: JSON lists; null: all. */
export interface FilterColumns {
  readonly scopes: string;
  readonly dictionaries: string | null;
  readonly actions: string | null;
  readonly categories: string | null;
}

export function filterColumns({ scopes, dictionaries, actions, categories }: Filter): FilterColumns {
  const list = (items: readonly string[] | null): string | null => (items === null ? null : JSON.stringify(items));
  return {
    scopes: JSON.stringify(scopes),
    dictionaries: list(dictionaries),
    actions: list(actions),
    categories: list(categories),
  };
}

/** Throws STORAGE_DAMAGED. `owner`: for the message. */
export function filterIn({ scopes, dictionaries, actions, categories }: FilterColumns, owner: string): Filter {
  const list = (stored: string | null): readonly string[] | null => {
    try {
      return stored === null ? null : (JSON.parse(stored) as string[]);
    } catch (cause) {
      const message = `refdata.db is damaged: a filter of the ${owner} is not a list`;
      throw new LinesideError('STORAGE_DAMAGED', message, { cause });
    }
  };
  return {
    scopes: (list(scopes) ?? []) as readonly Scope[],
    dictionaries: list(dictionaries),
    actions: list(actions) as readonly Action[] | null,
    categories: list(categories) as readonly Category[] | null,
  };
}
