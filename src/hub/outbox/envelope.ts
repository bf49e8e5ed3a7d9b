/**
 * What is sent of an event: the topic event of a record (proto/dictionary-changed.schema.json), and the element of a
 * webhook delivery of a definition or draft. Fields in the order of the specification. Pure.
 */
import { sameJson } from '../../shared/base/same-json.ts';
import type { Category, DefinitionEvent, JsonObject, OutboxEvent, RecordEvent, Stamp } from './event.ts';

/** Of the event's form; a major increase is a breaking change. */
const schemaVersion = '1.0.0';

/** JSON text, as it is stored and sent. */
export function envelopeOf(event: OutboxEvent, stamp: Stamp): string {
  return JSON.stringify(event.kind === 'record' ? recordEnvelope(event, stamp) : definitionElement(event, stamp));
}

export function categoryOf(event: OutboxEvent): Category {
  if (event.kind === 'record') return 'dict.record.*';
  return event.eventType.startsWith('SchemaDraft') ? 'dict.draft.*' : 'dict.definition.*';
}

function recordEnvelope(event: RecordEvent, stamp: Stamp): object {
  return {
    schemaVersion,
    eventType: event.eventType,
    occurredAt: stamp.occurredAt,
    txTime: stamp.txTime,
    changedBy: stamp.changedBy,
    changeReason: stamp.changeReason,
    scope: event.scope,
    dictionary: event.dictionary,
    businessKey: event.businessKey,
    action: event.action,
    version: event.version,
    validFrom: event.validFrom,
    validTo: event.validTo,
    data: event.data,
    previousData: previousData(event),
  };
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

/** The three rules of the specification: nothing, what changed of the old version, the whole old version. */
function previousData({ action, before, data }: RecordEvent): JsonObject | null {
  if (action === 'created') return null;
  if (before === undefined) throw new TypeError(`a record was ${action} that has no version before`);
  return action === 'closed' ? before : changedFields(before, data);
}

/** Of the old data, the top-level fields that the new data lacks or has otherwise. fromEntries: a field may be named __proto__. */
function changedFields(before: JsonObject, after: JsonObject): JsonObject {
  return Object.fromEntries(
    Object.entries(before).filter(([name, value]) => !(Object.hasOwn(after, name) && sameJson(value, after[name]))),
  );
}
