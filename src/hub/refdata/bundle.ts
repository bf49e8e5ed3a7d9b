/**
 * A bundle: its bytes are split into entries (the lines of NDJSON, or the elements of {"items": [...]}), and an entry is read:
 * {dictionary, businessKey, data, validFrom?, action?}. Pure.
 *
 * No streaming JSON parser can do it: an element that is not JSON is one of many listed faults, numbers are kept exactly or
 * refused, and the size of an entry is limited before it is parsed.
 */
import { LinesideError } from '../../shared/base/errors.ts';
import { decodeUtf8, parseExactJson } from '../../shared/base/exact-json.ts';
import { type Instant, parseInstant } from '../../shared/base/instant.ts';
import type { JsonObject } from '../outbox/event.ts';
import type { BundleFormat } from './face.ts';
import { businessKeyFault, checkData, notAnInstant } from './input-rules.ts';

export interface Entry {
  /** "line 3", "item 3"; from 1. */
  readonly label: string;
  /** undefined: longer than the limit. */
  readonly bytes: Uint8Array | undefined;
}

/** Data of 256 KiB written with every character escaped, and the item around it. */
export const maxEntryBytes = 1024 * 1024;

const LF = 0x0a;
const QUOTE = 0x22;
const COMMA = 0x2c;
const BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const BRACKET_END = 0x5d;
const BRACE = 0x7b;
const BRACE_END = 0x7d;
const blanks: ReadonlySet<number | undefined> = new Set([0x20, 0x09, 0x0d, LF]);
/** The first byte of a byte order mark in UTF-8, which has three. */
const BYTE_ORDER_MARK = 0xef;

/** Throws MALFORMED if the frame around JSON items is not complete. */
export function entriesOf(format: BundleFormat, bytes: Uint8Array): Generator<Entry> {
  return format === 'ndjson' ? linesOf(bytes) : itemsOf(bytes);
}

/** Blank lines are entries, too: line numbers count them. */
function* linesOf(bytes: Uint8Array): Generator<Entry> {
  let from = 0;
  for (let number = 1; from < bytes.length; number++) {
    const feed = bytes.indexOf(LF, from);
    const end = feed < 0 ? bytes.length : feed;
    yield { label: `line ${number}`, bytes: boundedPart(bytes, from, end) };
    from = end + 1;
  }
}

function* itemsOf(bytes: Uint8Array): Generator<Entry> {
  let at = bytes[0] === BYTE_ORDER_MARK ? 3 : 0;
  const skipBlanks = (): void => {
    while (blanks.has(bytes[at])) at++;
  };
  const expect = (character: string): void => {
    skipBlanks();
    if (bytes[at++] !== character.charCodeAt(0)) throw malformed(`a ${character} is missing`);
  };
  for (const character of '{"') expect(character);
  if (String.fromCharCode(...bytes.subarray(at, at + 6)) !== 'items"') throw malformed('its one field must be "items"');
  at += 6;
  for (const character of ':[') expect(character);
  skipBlanks();
  let hasMore = bytes[at] !== BRACKET_END;
  if (!hasMore) at++;
  for (let number = 1; hasMore; number++) {
    const end = endOfItem(bytes, at, number);
    hasMore = bytes[end] === COMMA;
    if (!hasMore && bytes[end] !== BRACKET_END) throw malformed(`it breaks off in item ${number}`);
    yield { label: `item ${number}`, bytes: boundedPart(bytes, at, end) };
    at = end + 1;
  }
  expect('}');
  skipBlanks();
  if (at < bytes.length) throw malformed('something comes after its end');
}

/** The index of the comma or bracket behind the item; the end of the bytes if it is missing. */
function endOfItem(bytes: Uint8Array, from: number, number: number): number {
  let depth = 0;
  for (let at = from; at < bytes.length; at++) {
    const byte = bytes[at];
    const isEnd = byte === BRACE_END || byte === BRACKET_END;
    if (depth === 0 && (isEnd || byte === COMMA)) return at;
    if (byte === QUOTE) at = endOfString(bytes, at, number);
    else if (byte === BRACE || byte === BRACKET) depth++;
    else if (isEnd) depth--;
  }
  return bytes.length;
}

/** The index of the closing quote. */
function endOfString(bytes: Uint8Array, opening: number, number: number): number {
  for (let at = opening + 1; at < bytes.length; at++) {
    if (bytes[at] === QUOTE) return at;
    if (bytes[at] === BACKSLASH) at++;
  }
  throw malformed(`a string in item ${number} has no end`);
}

function boundedPart(bytes: Uint8Array, from: number, end: number): Uint8Array | undefined {
  return end - from > maxEntryBytes ? undefined : bytes.subarray(from, end);
}

function malformed(why: string): LinesideError {
  return new LinesideError('MALFORMED', `the bundle is not {"items": [...]}: ${why}`);
}

export type BundleItem = { readonly dictionary: string; readonly businessKey: string } & (
  | {
      readonly action: 'upsert';
      readonly data: JsonObject;
      /** The data as it is stored. */
      readonly text: string;
      readonly validFrom: Instant | undefined;
    }
  | { readonly action: 'close' }
);

type ReadItem = { readonly item: BundleItem } | { readonly faults: readonly string[] } | { readonly blank: true };

const fields: ReadonlySet<string> = new Set(['dictionary', 'businessKey', 'data', 'validFrom', 'action']);

export function readItem(bytes: Uint8Array, blankAllowed: boolean): ReadItem {
  const text = decodeUtf8(bytes);
  if (text === undefined) return { faults: ['is not UTF-8'] };
  if (blankAllowed && text.trim() === '') return { blank: true };
  const { value, fault } = parseExactJson(text);
  if (fault !== undefined) return { faults: [`${fault.pointer} ${fault.message}`.trimStart()] };
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return { faults: ['must be an object'] };
  return itemOf(value as Readonly<Record<string, unknown>>);
}

function itemOf(value: Readonly<Record<string, unknown>>): ReadItem {
  const faults: string[] = [];
  for (const name of Object.keys(value)) if (!fields.has(name)) faults.push(`${shown(name)} is not a field of an item`);
  const { dictionary, businessKey, action = 'upsert' } = value;
  if (typeof dictionary !== 'string') faults.push('/dictionary must be a string');
  if (typeof businessKey !== 'string') faults.push('/businessKey must be a string');
  else if (businessKeyFault(businessKey) !== '') faults.push(`/businessKey ${businessKeyFault(businessKey)}`);
  if (action === 'upsert') return upsertOf(value, faults);
  if (action !== 'close') faults.push('/action must be "upsert" or "close"');
  else
    for (const name of ['data', 'validFrom'])
      if (Object.hasOwn(value, name)) faults.push(`/${name} is not for "close"`);
  if (faults.length > 0 || typeof dictionary !== 'string' || typeof businessKey !== 'string') return { faults };
  return { item: { dictionary, businessKey, action: 'close' } };
}

function upsertOf(value: Readonly<Record<string, unknown>>, faults: string[]): ReadItem {
  const { dictionary, businessKey, data, validFrom } = value;
  const checked = checkData(data);
  if (checked.fault !== undefined) faults.push(`/data ${checked.fault}`);
  const from = typeof validFrom === 'string' ? parseInstant(validFrom) : undefined;
  if (validFrom !== undefined && from === undefined) faults.push(`/validFrom ${notAnInstant}`);
  if (faults.length > 0 || checked.fault !== undefined) return { faults };
  if (typeof dictionary !== 'string' || typeof businessKey !== 'string') return { faults };
  return {
    item: { dictionary, businessKey, action: 'upsert', data: data as JsonObject, text: checked.text, validFrom: from },
  };
}

/** A name from an uploaded file, on one line and of limited length. */
function shown(name: string): string {
  return JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}...` : name);
}
