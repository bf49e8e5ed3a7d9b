/** What is changed and sent in these rows: the same for lineside and for its peers. */
import { recordEvent, sentText, type WholeRecordEvent } from '../../../src/hub/outbox/event.fixture.ts';
import type { JsonObject, Stamp } from '../../../src/hub/outbox/event.ts';
import type { NewDictionary } from '../../../src/hub/refdata/face.ts';

export const DICTIONARY = 'site.tools';

/** With a schema, as a dictionary in use has one: each change is checked against it. */
export const dictionary: NewDictionary = {
  name: DICTIONARY,
  title: 'Tools of the site',
  scope: 'PUBLIC',
  schema: {
    type: 'object',
    required: ['name', 'serial', 'room'],
    additionalProperties: false,
    properties: {
      name: { type: 'string', maxLength: 100 },
      serial: { type: 'string', pattern: '^[A-F0-9]+$' },
      room: { type: 'string' },
      calibrated: { type: 'string', format: 'date' },
      limits: { type: 'object', properties: { low: { type: 'number' }, high: { type: 'number' } } },
      notes: { type: 'string' },
    },
  },
};

/** Some 250 bytes as JSON; compresses to about a third among its like. */
export function dataOf(n: number, version = 1): JsonObject {
  const scattered = Math.imul(n + 1, 0x9e37_79b1) >>> 0;
  return {
    name: `torque wrench ${n}`,
    serial: `${hex(scattered)}${hex(Math.imul(scattered, 0x85eb_ca6b) >>> 0)}`,
    room: `room-${scattered % 311}`,
    calibrated: '2026-03-01',
    limits: { low: (scattered % 1_000) / 10, high: 100 + (scattered % 7_919) / 10 },
    notes: `checked by the morning shift, version ${version}, drawer ${scattered % 41}, next to the hydraulic press`,
  };
}

const hex = (number: number): string => number.toString(16).toUpperCase().padStart(8, '0');

/** The line of a bundle. */
export function bundled(businessKey: string, n: number): string {
  return `${JSON.stringify({ dictionary: DICTIONARY, businessKey, data: dataOf(n) })}\n`;
}

export const keyOf = (n: number): string => `tool-${n}`;

/** Texts that sort, as lineside's instants do. */
export const instantOf = (n: number): string =>
  `2026-03-01T${String(Math.floor(n / 3_600) % 24).padStart(2, '0')}:${String(Math.floor(n / 60) % 60).padStart(2, '0')}:${String(n % 60).padStart(2, '0')}.${String(n).padStart(6, '0').slice(-6)}+00:00`;

export function stampOf(n: number): Stamp {
  return { changedBy: 'local', changeReason: '', txTime: instantOf(n), occurredAt: instantOf(n) };
}

export function eventOf(
  n: number,
  key: string,
  version: number,
  data: JsonObject,
  before?: JsonObject,
): WholeRecordEvent {
  return recordEvent(key, version, { dictionary: DICTIONARY, validFrom: instantOf(n), data, before });
}

/** What is sent of the creation of the n-th record. */
export function sentOf(n: number): string {
  return sentText(eventOf(n, keyOf(n), 1, dataOf(n)), stampOf(n));
}

/** Bytes of an event where rows are drained. */
export const EVENT_BYTES = 500;

/** The n-th of so many rows over so many keys, of EVENT_BYTES: a key's versions come in their order. */
export function eventAt(n: number, keys: number): { readonly event: WholeRecordEvent; readonly stamp: Stamp } {
  const version = Math.floor(n / keys) + 1;
  const mixed = `${hex(Math.imul(n + 7, 0x85eb_ca6b) >>> 0)}${'calibrated in the morning '.repeat(4)}`;
  const stamp = stampOf(n);
  const of = (note: string): WholeRecordEvent => {
    const data = { room: `room-${n % 311}`, note };
    return eventOf(n, keyOf(n % keys), version, data, version === 1 ? undefined : data);
  };
  const bare = sentText(of(''), stamp).length;
  return { event: of(mixed.slice(0, Math.max(0, EVENT_BYTES - bare))), stamp };
}
