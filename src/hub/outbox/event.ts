/**
 * Events by the change-notification specification: the topic event of a record (proto/dictionary-changed.schema.json), and the
 * element of a webhook delivery of a definition or draft. Pure.
 */
import type { Instant } from '../../shared/base/instant.ts';
import { sameJson } from '../../shared/base/json.ts';

/** From the widest to the narrowest. */
export const scopes = ['PUBLIC', 'INTERNAL', 'RESTRICTED'] as const;
export type Scope = (typeof scopes)[number];

export function narrowest(...some: readonly [Scope, ...Scope[]]): Scope {
  return scopes.findLast((scope) => some.includes(scope)) ?? 'RESTRICTED';
}

export function isWider(to: Scope, from: Scope): boolean {
  return scopes.indexOf(to) < scopes.indexOf(from);
}

/**
 * A pattern of JSON Schema. Published patterns use only what the regular expressions of all languages have in common: no
 * \p{...} and \u{...}, which Python refuses, and no \d, which matches more than ten digits there.
 */
export const DICTIONARY_NAME = '^[a-z0-9][a-z0-9._-]{0,127}$';

/** Why a change was made: in its event and in the audit. May have line breaks. */
export const CHANGE_REASON = '^[^\\x00]*$';
export const MAX_CHANGE_REASON_CHARS = 1_000;
const reasonText = new RegExp(CHANGE_REASON);

export function reasonFaults(reason: string): readonly string[] {
  const length = lengthFault(reason, 0, MAX_CHANGE_REASON_CHARS);
  return faultAt('/changeReason', length || (reasonText.test(reason) ? '' : 'must have no NUL character'));
}

export function faultAt(pointer: string, fault: string): readonly string[] {
  return fault === '' ? [] : [`${pointer} ${fault}`];
}

/** The fault of a length in code points, or ''. */
export function lengthFault(text: string, min: number, max: number): string {
  if (!text.isWellFormed()) return 'has half of a surrogate pair, which is no character';
  const length = codePoints(text, max);
  if (length < min) return 'must not be empty';
  return length > max ? `must have at most ${max} characters` : '';
}

/** Counts only up to `enough`: the text may have a megabyte. */
function codePoints(text: string, enough: number): number {
  if (text.length <= enough) return text.length;
  return text.length > 2 * enough ? enough + 1 : Array.from(text).length;
}

export type Action = 'created' | 'updated' | 'closed';
type Json = null | boolean | number | string | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [name: string]: Json;
}

/** A change of a record; sent to the topic of its scope, and to webhooks. Its JSON has the fields of its version, too (the view `events`). */
export interface RecordEvent {
  readonly kind: 'record';
  readonly eventType: 'dictionary.changed' | 'dictionary.bulk_imported';
  readonly scope: Scope;
  readonly dictionary: string;
  readonly businessKey: string;
  readonly action: Action;
  /** Row of record_versions. */
  readonly versionId: number;
  /** Characters of the version's data. */
  readonly dataChars: number;
  readonly previousData: JsonObject | null;
}

export const definitionEventTypes = [
  'DefinitionCreated',
  'DefinitionUpdated',
  'SchemaDraftCreated',
  'SchemaDraftReviewRequested',
  'SchemaDraftDecided',
  'SchemaDraftPublished',
  'SchemaDraftWithdrawn',
] as const;
export type DefinitionEventType = (typeof definitionEventTypes)[number];

/** A step of a definition or a draft; sent to webhooks only. */
export interface DefinitionEvent {
  readonly kind: 'definition';
  readonly eventType: DefinitionEventType;
  readonly scope: Scope;
  readonly dictionary: string;
  /** The definition or draft after the step. */
  readonly data: JsonObject;
}

export type OutboxEvent = RecordEvent | DefinitionEvent;

export type Category = 'dict.record.*' | 'dict.definition.*' | 'dict.draft.*';

export interface Author {
  /** The token's name; "local" on the Unix socket; "device" for the device's own facts. */
  readonly changedBy: string;
  readonly changeReason: string;
}

/** Of a transaction. */
export interface Stamp extends Author {
  /** Strictly increasing on the device, also when the clock steps back; names the transaction. */
  readonly txTime: Instant;
  /** The wall clock. */
  readonly occurredAt: Instant;
}

/** Of the event; a major increase is a breaking change. That of a record's event stands in the view `events`. */
export const schemaVersion = '1.0.0';

/** JSON that is stored: of a record what its version does not have, of a definition or draft all that is sent. */
export function storedBody(event: OutboxEvent, stamp: Stamp): string {
  return JSON.stringify(event.kind === 'record' ? event.previousData : definitionElement(event, stamp));
}

export function categoryOf({ kind, eventType }: Pick<OutboxEvent, 'kind' | 'eventType'>): Category {
  if (kind === 'record') return 'dict.record.*';
  return eventType.startsWith('SchemaDraft') ? 'dict.draft.*' : 'dict.definition.*';
}

function definitionElement(event: DefinitionEvent, stamp: Stamp): object {
  return {
    schemaVersion,
    eventType: event.eventType,
    category: categoryOf(event),
    dictionary: event.dictionary,
    occurredAt: stamp.occurredAt,
    changedBy: stamp.changedBy,
    data: event.data,
  };
}

/**
 * The three rules of the specification: nothing, what changed of the old version, the whole old version. `before`: its data; undefined
 * for `created`.
 */
export function previousDataOf(action: Action, before: JsonObject | undefined, data: JsonObject): JsonObject | null {
  if (action === 'created') return null;
  if (before === undefined) throw new TypeError(`a record was ${action} that has no version before`);
  return action === 'closed' ? before : changedFields(before, data);
}

/** The top-level fields of the old data that differ or are missing in the new data. fromEntries: a field may be named __proto__. */
function changedFields(before: JsonObject, after: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(before).filter(([name, value]) => !(Object.hasOwn(after, name) && sameJson(value, after[name]))),
  );
}
