/** Events for tests and benchmarks: with all their fields, as the specification has them, and as they are stored. */
import { FAR_FUTURE, type Instant } from '../../shared/base/instant.ts';
import type { Connection } from '../../shared/storage/open.ts';
import type { Change } from './change-store.ts';
import {
  type DefinitionEvent,
  type JsonObject,
  previousDataOf,
  type RecordEvent,
  type Stamp,
  storedBody,
} from './event.ts';

export interface WholeRecordEvent extends Omit<RecordEvent, 'versionId' | 'dataChars' | 'previousData'> {
  readonly version: number;
  readonly validFrom: Instant;
  readonly validTo: Instant;
  readonly data: JsonObject;
  /** The data of the version before; undefined for `created`. */
  readonly before: JsonObject | undefined;
}

export type WholeEvent = WholeRecordEvent | DefinitionEvent;

/** A record's change that is sent to the topic of PUBLIC. */
export function recordEvent(
  businessKey: string,
  version = 1,
  changes: Partial<WholeRecordEvent> = {},
): WholeRecordEvent {
  return {
    kind: 'record',
    eventType: 'dictionary.changed',
    scope: 'PUBLIC',
    dictionary: 'tools',
    businessKey,
    action: version === 1 ? 'created' : 'updated',
    version,
    validFrom: '2026-01-01T00:00:00+00:00',
    validTo: FAR_FUTURE,
    data: { n: version },
    before: version === 1 ? undefined : { n: version - 1 },
    ...changes,
  };
}

/** What is sent, as the specification has it. */
export function sentText(event: WholeEvent, stamp: Stamp): string {
  if (event.kind === 'definition') return storedBody(event, stamp);
  const { eventType, scope, dictionary, businessKey, action, version, validFrom, validTo, data, before } = event;
  const { occurredAt, txTime, changedBy, changeReason } = stamp;
  return JSON.stringify({
    schemaVersion: '1.0.0',
    eventType,
    occurredAt,
    txTime,
    changedBy,
    changeReason,
    scope,
    dictionary,
    businessKey,
    action,
    version,
    validFrom,
    validTo,
    data,
    previousData: previousDataOf(action, before, data),
  });
}

/** Adds the event with its version; returns its id. */
export function emitEvent(change: Change, event: WholeEvent): number {
  return change.emit(event.kind === 'record' ? withVersion(change.connection, event, change.stamp) : event);
}

/** Writes the version of the event, as a change of the record would. */
export function withVersion(connection: Connection, event: WholeRecordEvent, stamp: Stamp): RecordEvent {
  const { version, validFrom, validTo, data, before, ...rest } = event;
  const { txTime, changedBy, changeReason } = stamp;
  const text = JSON.stringify(data);
  const row = { version, action: event.action, validFrom, validTo, txTime, changedBy, changeReason, data: text };
  const versionId = Number(insertOf(connection).run(row).lastInsertRowid);
  const previousData = previousDataOf(event.action, before, data);
  return { ...rest, versionId, dataChars: text.length, previousData };
}

const inserts = new WeakMap<Connection, ReturnType<typeof insertVersion>>();

function insertOf(connection: Connection): ReturnType<typeof insertVersion> {
  const known = inserts.get(connection) ?? insertVersion(connection);
  inserts.set(connection, known);
  return known;
}

function insertVersion(connection: Connection) {
  return connection.prepare<[Readonly<Record<string, string | number>>]>(
    `INSERT INTO record_versions (version, action, valid_from, valid_to, tx_time, changed_by, change_reason, data)
     VALUES (:version, :action, :validFrom, :validTo, :txTime, :changedBy, :changeReason, :data)`,
  );
}
