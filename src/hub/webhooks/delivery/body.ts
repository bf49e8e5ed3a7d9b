/**
 * The body of a delivery. Renderer 1 must never change: a delivery has the same bytes on every attempt, also after an
 * update. Another form of body needs another renderer. Pure.
 */
import { LinesideError } from '../../../shared/base/errors.ts';
import type { Instant } from '../../../shared/base/instant.ts';
import type { Filter } from '../face.ts';
import { recordCategory } from '../subscriptions/filter.ts';

/** Of new body templates. */
export const renderer = 1;

export interface BodyTemplate extends Filter {
  readonly id: number;
  readonly subscriptionId: number;
  readonly renderer: number;
  readonly name: string;
}

export interface StoredEvent {
  readonly category: string;
  /** An envelope of the outbox. */
  readonly body: string;
}

/** `events`: those the template's filters take, in the order of their ids. Throws STORAGE_DAMAGED, or INTERNAL for another renderer. */
export function renderBody(
  template: BodyTemplate,
  { deliveryId, occurredAt }: { readonly deliveryId: string; readonly occurredAt: Instant },
  events: Iterable<StoredEvent>,
): Buffer {
  if (template.renderer !== renderer) {
    throw new LinesideError(
      'INTERNAL',
      `a delivery asks for renderer ${template.renderer}, this program has ${renderer}`,
      {
        hint: 'It was made by a newer lineside: install that version.',
      },
    );
  }
  const elements: string[] = [];
  for (const { category, body } of events) elements.push(category === recordCategory ? recordElement(body) : body);
  const [id, name, at] = [deliveryId, template.name, occurredAt].map((text) => JSON.stringify(text));
  return Buffer.from(
    `{"deliveryId":${id},"subscriptionName":${name},"occurredAt":${at},"events":[${elements.join(',')}]}`,
  );
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

/** Copies the values' JSON from the envelope unchanged: parsing could alter numbers. */
function recordElement(envelope: string): string {
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
