/**
 * The rules of subscriptions: all faults of a request at once, the terms of one without faults, and which events it takes. The
 * egress guard checks the URL. A fault names its field and quotes no value: secrets are pasted into wrong fields. Pure.
 */
import { LinesideError } from '../../../shared/base/errors.ts';
import { type Category, DICTIONARY_NAME, faultAt, type Scope, scopes } from '../../outbox/event.ts';
import {
  actions,
  categories,
  type Filter,
  type SecretRotation,
  SUBSCRIPTION_NAME,
  type SubscriptionPatch,
  type SubscriptionRequest,
  type SubscriptionView,
} from '../face.ts';

/** The part of a subscription that a patch can change. */
export type Terms = Filter & Pick<SubscriptionView, 'name' | 'url' | 'active'>;

export interface Subscription extends Terms, Pick<SubscriptionView, 'consumer' | 'version'> {
  readonly id: number;
  /** Events up to this one are not for it. */
  readonly afterEvent: number;
}

export interface Secrets {
  readonly current: string;
  readonly previous: string | undefined;
}

export const defaultGraceSeconds = 86_400;
/** A month, for subscribers that are changed by hand. */
const maxGraceSeconds = 2_592_000;
const minSecretBytes = 16;
const maxSecretBytes = 1_024;
/** For each list of a filter. 1,000 names of 128 characters are 128 KiB in memory and in the audit. */
const maxListed = 1_000;

/** It is sent in a header: HTTP libraries trim spaces, and not all of them support other characters. */
const namePattern = new RegExp(SUBSCRIPTION_NAME);
const dictionaryPattern = new RegExp(DICTIONARY_NAME);

/** Limits of a subscription's scopes. */
export interface Bounds {
  /** undefined: there is no such consumer. */
  readonly consumer: readonly Scope[] | undefined;
  readonly caller: readonly Scope[];
}

/** The scopes of a subscription that names none. */
export function openTo({ consumer, caller }: Bounds): readonly Scope[] {
  return (consumer ?? []).filter((scope) => caller.includes(scope));
}

export function requestFaults(request: SubscriptionRequest, bounds: Bounds): readonly string[] {
  return [
    ...termsFaults(request, bounds),
    ...secretFaults(request.secret),
    ...(bounds.consumer === undefined ? ['/consumer names no token that exists'] : []),
  ];
}

/** `before`: the present scopes. */
export function patchFaults(patch: SubscriptionPatch, bounds: Bounds, before: readonly Scope[]): readonly string[] {
  const given = termNames.some((name) => patch[name] !== undefined);
  const asked = patch.scopes !== undefined;
  const consumerIsGone = asked && bounds.consumer === undefined;
  return [
    ...(given ? [] : ['/name, /url, /active or a filter must be given']),
    ...termsFaults(patch, bounds),
    ...(consumerIsGone ? ['/scopes cannot be chosen: the token that is its consumer is gone'] : []),
    ...(asked || onlyStops(patch) ? [] : keptScopesFaults(before, bounds)),
  ];
}

/** With another URL the caller could receive records of scopes that are closed to it. Any admin may stop a subscription. */
function keptScopesFaults(before: readonly Scope[], { caller }: Bounds): readonly string[] {
  const closed = before.filter((scope) => !caller.includes(scope));
  return closed.length === 0
    ? []
    : [`/scopes has ${closed.join(' and ')}, which you may not read: ${roleHint(closed)}`];
}

function onlyStops({ active, ...others }: SubscriptionPatch): boolean {
  return active === false && Object.values(others).every((value) => value === undefined);
}

function roleHint(closed: readonly Scope[]): string {
  return `choose other scopes, or use a token with the role refdata-${(closed.at(-1) ?? '').toLowerCase()}`;
}

export function rotationFaults({ secret, graceSeconds = 0 }: SecretRotation): readonly string[] {
  const inRange = Number.isInteger(graceSeconds) && graceSeconds >= 0 && graceSeconds <= maxGraceSeconds;
  return [
    ...secretFaults(secret),
    ...(inRange ? [] : [`/graceSeconds must be a whole number from 0 to ${maxGraceSeconds}`]),
  ];
}

/** Of a request without faults. */
export function termsOf(request: SubscriptionRequest, open: readonly Scope[]): Terms {
  const everything = { scopes: open, dictionaries: null, actions: null, categories: null };
  return patchedTerms({ name: '', url: '', active: true, ...everything }, request, open);
}

/** Of a patch without faults. A list that is not given stays; `scopes: null` means every open scope. */
export function patchedTerms(before: Terms, patch: SubscriptionPatch, open: readonly Scope[]): Terms {
  const { name = before.name, url = before.url, active = before.active } = patch;
  return {
    name,
    url,
    active,
    scopes: patch.scopes === undefined ? before.scopes : chosen(scopes, patch.scopes ?? open),
    dictionaries: patch.dictionaries === undefined ? before.dictionaries : orAll([...new Set(patch.dictionaries)]),
    actions: patch.actions === undefined ? before.actions : orAll(chosen(actions, patch.actions)),
    categories: patch.categories === undefined ? before.categories : orAll(chosen(categories, patch.categories)),
  };
}

export function changesOf(before: Terms, after: Terms): Partial<Terms> {
  const changed = termNames.filter((key) => JSON.stringify(before[key]) !== JSON.stringify(after[key]));
  return Object.fromEntries(changed.map((key) => [key, after[key]]));
}

const termNames = ['name', 'url', 'active', 'scopes', 'dictionaries', 'actions', 'categories'] as const;

/** In the order of `known`, each once. */
function chosen<T extends string>(known: readonly T[], given: readonly string[] | null): readonly T[] {
  return given === null ? [] : known.filter((item) => given.includes(item));
}

function orAll<T>(list: readonly T[]): readonly T[] | null {
  return list.length === 0 ? null : list;
}

function termsFaults(given: SubscriptionPatch, bounds: Bounds): readonly string[] {
  return [
    ...(given.name === undefined || namePattern.test(given.name)
      ? []
      : ['/name must be 1 to 128 printable ASCII characters with no space at either end']),
    ...scopesFaults(given, bounds),
    ...listFaults('/dictionaries', given.dictionaries, dictionaryFault),
    ...listFaults('/actions', given.actions, choiceFault(actions)),
    ...listFaults('/categories', given.categories, choiceFault(categories)),
  ];
}

function scopesFaults({ scopes: given }: SubscriptionPatch, { consumer, caller }: Bounds): readonly string[] {
  if (given?.length === 0) return ['/scopes must not be empty'];
  const isIn = (open: readonly string[] | undefined, scope: string): boolean => open?.includes(scope) ?? true;
  const closed = (scope: string): string => {
    if (!isIn(consumer, scope)) return 'is not open to the consumer';
    return isIn(caller, scope) ? '' : 'is not open to you, the caller';
  };
  return listFaults('/scopes', given, (scope) => choiceFault(scopes)(scope) || closed(scope));
}

function listFaults(
  pointer: string,
  list: readonly string[] | null | undefined,
  faultOf: (item: string) => string,
): readonly string[] {
  if (list === undefined || list === null) return [];
  if (list.length > maxListed) return [`${pointer} must have at most ${maxListed} items`];
  return list.flatMap((item, at) => faultAt(`${pointer}/${at}`, faultOf(item)));
}

function choiceFault(known: readonly string[]): (item: string) => string {
  return (item) => (known.includes(item) ? '' : `must be one of ${known.join(', ')}`);
}

function dictionaryFault(name: string): string {
  return dictionaryPattern.test(name)
    ? ''
    : 'is no name of a dictionary: a-z, 0-9, ".", "_", "-", at most 128 characters';
}

export function secretFaults(secret: string): readonly string[] {
  // Half a pair would be replaced before its use as a key: the two sides would have different keys.
  if (!secret.isWellFormed()) return ['/secret has half of a surrogate pair, which is no character'];
  const bytes = secret.length > maxSecretBytes ? Infinity : new TextEncoder().encode(secret).length;
  if (bytes >= minSecretBytes && bytes <= maxSecretBytes) return [];
  return [`/secret must have ${minSecretBytes} to ${maxSecretBytes} bytes in UTF-8`];
}

/** undefined: not an id. */
export function idOf(text: string): number | undefined {
  return /^[1-9]\d{0,14}$/.test(text) ? Number(text) : undefined;
}

export function subjectOf({ id, name }: Subscription): string {
  return `subscription ${id} (${name})`;
}

export function noSubscription(): LinesideError {
  return new LinesideError('NOT_FOUND', 'there is no such subscription', {
    hint: 'It may have been deleted: see the audit.',
  });
}

/** Throws INVALID_ARGUMENT when there are reasons. `subject`: for the message. */
export function refuse(subject: string, reasons: readonly string[]): void {
  const [only] = reasons;
  if (only === undefined) return;
  const message = reasons.length === 1 ? only : `${subject} has ${reasons.length} faults`;
  throw new LinesideError('INVALID_ARGUMENT', message, { reasons });
}

// Which events a subscription takes.

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
