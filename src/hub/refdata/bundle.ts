/** A bundle as one transaction: every entry is read, checked and written; after the first fault, only checked. */
import { LinesideError } from '../../shared/base/errors.ts';
import { type Instant, parseInstant } from '../../shared/base/instant.ts';
import { decodeUtf8, parseExactJson, sameJson } from '../../shared/base/json.ts';
import type { Change } from '../outbox/change-store.ts';
import { type Author, isWider, type JsonObject } from '../outbox/event.ts';
import { type DictionaryHead, dictionaryStatements } from './dictionaries.ts';
import type { Actor, BundleFormat, ImportResult } from './face.ts';
import type { DataCheck, dataChecks } from './json-schema.ts';
import { RecordWriter } from './record-writer.ts';
import { businessKeyFault, checkData, Faults, isVisible, notAnInstant, openFrom, quotedName } from './rules.ts';

/** From import.ts to import-worker.ts. */
export interface ImportRequest {
  /** Of refdata.db. */
  readonly path: string;
  readonly maxBytes: number;
  readonly actor: Actor;
  readonly author: Author;
  readonly format: BundleFormat;
  /** The wall clock of the process. */
  readonly wallMs: number;
}

export interface ImportCalls {
  /** The next part of the bundle; its memory is transferred. `maxBytes`: of the whole bundle. */
  append: { request: { readonly part: ArrayBuffer; readonly maxBytes: number }; response: number };
  /** After the last part, while the write slot is held: one transaction. */
  run: { request: ImportRequest; response: ImportResult };
}

export const importAudit = 'records.imported';

/** Keys are kept in memory; at about 10,000 items a second on a small machine other changes wait 10 s. */
const maxItems = 100_000;

interface Target {
  readonly head: DictionaryHead;
  readonly check: DataCheck;
  /** Business keys so far, with their labels. */
  readonly labels: Map<string, string>;
}

export class ImportRun {
  readonly #change: Change;
  readonly #actor: Actor;
  readonly #afterItem: () => void;
  readonly #sql: ReturnType<typeof dictionaryStatements>;
  readonly #checkOf: ReturnType<typeof dataChecks>;
  readonly #writer: RecordWriter;
  /** By name; undefined: there is none for this actor. */
  readonly #targets = new Map<string, Target | undefined>();
  readonly #faults = new Faults();
  readonly #counts = { created: 0, updated: 0, closed: 0, unchanged: 0 };

  /** `afterItem`: throws to abort the run. */
  constructor(change: Change, actor: Actor, checkOf: ReturnType<typeof dataChecks>, afterItem: () => void) {
    this.#change = change;
    this.#actor = actor;
    this.#afterItem = afterItem;
    this.#sql = dictionaryStatements(change.connection);
    this.#checkOf = checkOf;
    this.#writer = new RecordWriter(change.connection, 'dictionary.bulk_imported');
  }

  /** Throws INVALID_ARGUMENT with the faults, TOO_LARGE, MALFORMED. */
  run(format: BundleFormat, bundle: Uint8Array): ImportResult {
    let items = 0;
    for (const { label, bytes } of entriesOf(format, bundle)) {
      const blank = this.#entry(label, bytes, format === 'ndjson');
      this.#afterItem();
      if (!blank && ++items > maxItems) {
        throw new LinesideError('TOO_LARGE', `a bundle has at most ${maxItems} items`, { hint: 'Cut it in two.' });
      }
    }
    const { count, reasons } = this.#faults;
    if (count > 0) {
      throw new LinesideError(
        'INVALID_ARGUMENT',
        `nothing was imported: the bundle has ${count === 1 ? 'a fault' : `${count} faults`}`,
        { reasons },
      );
    }
    const { txTime, changeReason } = this.#change.stamp;
    this.#change.audit(importAudit, [...this.#targets.keys()].slice(0, 10).join(', '), {
      ...this.#counts,
      changeReason,
    });
    return { txTime, ...this.#counts };
  }

  /** True: it was blank. */
  #entry(label: string, bytes: Uint8Array | undefined, blankAllowed: boolean): boolean {
    const fault = (...faults: readonly string[]): void =>
      this.#faults.add(...faults.map((text) => `${label}: ${text}`));
    if (bytes === undefined) {
      fault(`is longer than ${maxEntryBytes} bytes`);
      return false;
    }
    const read = readItem(bytes, blankAllowed);
    if ('blank' in read) return true;
    if ('faults' in read) fault(...read.faults);
    else fault(...this.#item(label, read.item));
    return false;
  }

  #item(label: string, item: BundleItem): readonly string[] {
    const target = this.#target(item.dictionary);
    if (target === undefined) return [`there is no dictionary ${quotedName(item.dictionary)}`];
    const first = target.labels.get(item.businessKey);
    if (first !== undefined) return [`${quotedName(item.businessKey)} is in ${first} already`];
    target.labels.set(item.businessKey, label);
    return item.action === 'close' ? this.#close(target, item.businessKey) : this.#upsert(target, item);
  }

  #target(name: string): Target | undefined {
    if (this.#targets.has(name)) return this.#targets.get(name);
    const head = this.#sql.head.get(name);
    const target =
      head === undefined || !isVisible(this.#actor, head.scope)
        ? undefined
        : { head, check: this.#checkOf(head.id, head.version), labels: new Map<string, string>() };
    this.#targets.set(name, target);
    return target;
  }

  #upsert({ head, check }: Target, item: BundleItem & { readonly action: 'upsert' }): readonly string[] {
    const { businessKey, data, text } = item;
    const faults = check(data, text.length);
    const validity = openFrom(item.validFrom, this.#change.stamp.txTime);
    if (typeof validity === 'string') return [...faults, `/validFrom ${validity}`];
    if (faults.length > 0 || this.#faults.count > 0) return faults;
    const newest = this.#writer.newest(head, businessKey);
    const open = newest !== undefined && newest.closed === 0;
    // Equal data that was written under a narrower scope is written again: that publishes it on the wider topic.
    const published = open && !isWider(head.scope, newest.scope);
    if (
      published &&
      newest.validFrom <= validity.validFrom &&
      (newest.data === text || sameJson(JSON.parse(newest.data), data))
    ) {
      this.#counts.unchanged++;
      return [];
    }
    this.#writer.put(this.#change, head, businessKey, newest, { ...validity, data, text });
    this.#counts[open ? 'updated' : 'created']++;
    return [];
  }

  #close({ head }: Target, businessKey: string): readonly string[] {
    const newest = this.#writer.newest(head, businessKey);
    if (newest === undefined) return [`there is no record ${quotedName(businessKey)} in ${head.name} to close`];
    if (newest.closed === 1) return [`the record ${quotedName(businessKey)} of ${head.name} is closed already`];
    if (this.#faults.count > 0) return [];
    this.#writer.close(this.#change, head, businessKey, newest);
    this.#counts.closed++;
    return [];
  }
}

// The bytes of a bundle, split into entries (the lines of NDJSON, or the elements of {"items": [...]}), and an entry as it is read:
// {dictionary, businessKey, data, validFrom?, action?}. No streaming JSON parser can do it: an element that is not JSON is one of
// many listed faults, numbers are kept exactly or refused, and the size of an entry is limited before it is parsed.

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
  for (const name of Object.keys(value))
    if (!fields.has(name)) faults.push(`${quotedName(name, 64)} is not a field of an item`);
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
