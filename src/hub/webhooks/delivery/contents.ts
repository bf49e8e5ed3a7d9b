/**
 * What deliveries carry: the events of a transaction that a filter takes, as JSON, made once when they are planned and shared
 * by their deliveries. The bytes of a delivery follow from columns that never change: they are the same on every attempt.
 */
import { constants, deflateSync, inflateSync } from 'node:zlib';
import { LinesideError } from '../../../shared/base/errors.ts';
import type { Instant } from '../../../shared/base/instant.ts';
import { actions, type Delivery } from '../face.ts';
import { recordCategory } from '../subscriptions/subscription.ts';

/** Elements with commas between: JSON, or deflated. */
export type StoredBody = string | Buffer;

/** Elements repeat the same names: deflated, many have about a tenth of the bytes. Less than this is one page of the card anyway. */
const deflatedFromChars = 1_024;

export function storedBody(elements: string): StoredBody {
  return elements.length < deflatedFromChars ? elements : deflateSync(elements);
}

export function deliveryIdOf({ id, nonce }: { readonly id: number; readonly nonce: string }): string {
  return `${id}-${nonce}`;
}

export interface Envelope {
  readonly id: number;
  readonly nonce: string;
  readonly subscriptionName: string;
  readonly occurredAt: Instant;
}

/** Throws zlib's error for a damaged body. */
export function bodyOf(envelope: Envelope, stored: StoredBody): Buffer {
  const { subscriptionName, occurredAt } = envelope;
  const [id, name, at] = [deliveryIdOf(envelope), subscriptionName, occurredAt].map((text) => JSON.stringify(text));
  const elements = typeof stored === 'string' ? Buffer.from(stored) : inflateSync(stored);
  const head = `{"deliveryId":${id},"subscriptionName":${name},"occurredAt":${at},"events":[`;
  return Buffer.concat([Buffer.from(head), elements, Buffer.from(']}')]);
}

export type EventHead = NonNullable<Delivery['firstEvent']>;

/** Of a stored body: enough for the names of its first event, whose keys have 256 characters at most, and little to inflate. */
export const headBytes = 2_048;

const quoted = '("(?:[^"\\\\]|\\\\.)*")';
const head = new RegExp(
  `^{"schemaVersion":${quoted},"eventType":${quoted},(?:"category":${quoted},)?"dictionary":${quoted}(?:,"businessKey":${quoted},"action":${quoted})?,`,
);

/** `begin`: the first `headBytes` of a stored body. Undefined: it is damaged. */
export function firstEventOf(begin: StoredBody): EventHead | undefined {
  try {
    const text =
      typeof begin === 'string' ? begin : inflateSync(begin, { finishFlush: constants.Z_SYNC_FLUSH }).toString();
    const members = head.exec(text)?.slice(1) ?? [];
    const values = members.map((member) => (member ? (JSON.parse(member) as string) : null));
    const [, eventType, , dictionary, businessKey = null, action] = values;
    if (!eventType || !dictionary) return undefined;
    return { eventType, dictionary, businessKey, action: actions.find((one) => one === action) ?? null };
  } catch {
    return undefined;
  }
}

/** In this order; undefined: copied from the envelope. Webhooks have one type of record event, for bulk imports too. */
const recordFields: readonly (readonly [name: string, text: string | undefined])[] = [
  ['schemaVersion', undefined],
  ['eventType', '"dictionary.changed"'],
  ['dictionary', undefined],
  ['businessKey', undefined],
  ['action', undefined],
  ['version', undefined],
  ['validFrom', undefined],
  ['data', undefined],
];
const wanted: ReadonlySet<string> = new Set(recordFields.map(([name]) => name));

/**
 * The element of an outbox event. Of a record it copies the values' JSON from the envelope unchanged: parsing could alter
 * numbers. Throws STORAGE_DAMAGED.
 */
export function elementOf(category: string, envelope: string): string {
  if (category !== recordCategory) return envelope;
  const found = membersOf(envelope);
  const members = recordFields.map(([name, text]) => `"${name}":${text ?? found.get(name) ?? damaged()}`);
  return `{${members.join(',')}}`;
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN = 0x7b;
const CLOSE = 0x7d;

/** Expects JSON.stringify's output without spaces; answers the JSON of the wanted members. */
function membersOf(text: string): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  if (text.charCodeAt(0) !== OPEN) damaged();
  for (let at = 1; found.size < wanted.size; at += 1) {
    const nameEnd = stringEnd(text, at);
    if (text.charCodeAt(nameEnd) !== COLON) damaged();
    const end = valueEnd(text, nameEnd + 1);
    const name = text.slice(at + 1, nameEnd - 1);
    if (wanted.has(name)) found.set(name, text.slice(nameEnd + 1, end));
    if (text.charCodeAt(end) !== COMMA) break;
    at = end;
  }
  return found;
}

/** Index after the value that begins at `from`. */
function valueEnd(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = stringEnd(text, at) - 1;
    else if (code === OPEN || code === OPEN_LIST) depth += 1;
    else if (code === CLOSE || code === CLOSE_LIST) {
      if (depth === 0) return at;
      depth -= 1;
    } else if (code === COMMA && depth === 0) return at;
  }
  return damaged();
}

/** Index after the closing quote of the string that begins at `from`. */
function stringEnd(text: string, from: number): number {
  if (text.charCodeAt(from) !== QUOTE) damaged();
  for (let at = from + 1; ; at += 1) {
    at = text.indexOf('"', at);
    if (at < 0) damaged();
    let escapes = 0;
    while (text.charCodeAt(at - 1 - escapes) === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return at + 1;
  }
}

function damaged(): never {
  throw new LinesideError('STORAGE_DAMAGED', 'a stored outbox event is no envelope');
}
