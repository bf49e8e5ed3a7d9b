/** Which events a subscription takes. Pure. */
import { LinesideError } from '../../../shared/base/errors.ts';
import type { Category, Scope } from '../../outbox/event.ts';
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

const lists = ['scopes', 'dictionaries', 'actions', 'categories'] as const satisfies readonly (keyof Filter)[];

/** A filter as it is stored: JSON lists; null: all. */
export type FilterColumns = { readonly [K in keyof Filter]: string | null };

export function filterColumns(filter: Filter): FilterColumns {
  return mapped((name) => (filter[name] === null ? null : JSON.stringify(filter[name]))) as FilterColumns;
}

/** Throws STORAGE_DAMAGED. `owner`: for the message. */
export function filterIn(columns: FilterColumns, owner: string): Filter {
  try {
    return mapped((name) => JSON.parse(columns[name] ?? 'null')) as Filter;
  } catch (cause) {
    const message = `refdata.db is damaged: a filter of the ${owner} is not a list`;
    throw new LinesideError('STORAGE_DAMAGED', message, { cause });
  }
}

function mapped(value: (name: keyof Filter) => unknown): object {
  return Object.fromEntries(lists.map((name) => [name, value(name)]));
}
