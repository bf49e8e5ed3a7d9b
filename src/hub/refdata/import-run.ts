/** A bundle as one transaction: every entry read, checked and written; from the first fault on, only checked. */
import { LinesideError } from '../../shared/base/errors.ts';
import { decodeUtf8, parseExactJson } from '../../shared/base/exact-json.ts';
import { type Instant, parseInstant } from '../../shared/base/instant.ts';
import { sameJson } from '../../shared/base/same-json.ts';
import type { Change } from '../outbox/change-store.ts';
import { isWider, type JsonObject } from '../outbox/event.ts';
import { isVisible, quotedName } from './access.ts';
import { entriesOf, maxEntryBytes } from './bundle.ts';
import { type DictionaryHead, DictionaryRows } from './dictionary-rows.ts';
import type { Actor, BundleFormat, ImportResult } from './face.ts';
import { Faults } from './faults.ts';
import { importAudit } from './import-calls.ts';
import type { DataCheck } from './json-schema.ts';
import { businessKeyFault } from './names.ts';
import { checkData } from './record-data.ts';
import { RecordWriter } from './record-writer.ts';
import { Validators } from './validators.ts';
import { covers, notAnInstant, openFrom } from './validity.ts';

/** Its keys are kept in memory; at some 10,000 a second on a small machine the others wait 10 s. */
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
  readonly #inTime: (() => void) | undefined;
  readonly #dictionaries: DictionaryRows;
  readonly #validators: Validators;
  readonly #writer: RecordWriter;
  /** By name; undefined: there is none for this actor. */
  readonly #targets = new Map<string, Target | undefined>();
  readonly #faults = new Faults();
  readonly #counts = { created: 0, updated: 0, closed: 0, unchanged: 0 };

  /** `inTime`: called after each item on the main thread; it throws when the run has to leave that thread. */
  constructor(change: Change, actor: Actor, inTime?: () => void) {
    this.#change = change;
    this.#actor = actor;
    this.#inTime = inTime;
    this.#dictionaries = new DictionaryRows(change.connection);
    this.#validators = new Validators(change.connection, inTime === undefined);
    this.#writer = new RecordWriter(change.connection, 'dictionary.bulk_imported');
  }

  /** Throws INVALID_ARGUMENT with the faults, TOO_LARGE, MALFORMED. */
  run(format: BundleFormat, blocks: Iterable<Uint8Array>): ImportResult {
    let items = 0;
    for (const { label, bytes } of entriesOf(format, blocks)) {
      const blank = this.#entry(label, bytes, format === 'ndjson');
      this.#inTime?.();
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
  #entry(place: string, bytes: Uint8Array | undefined, blankAllowed: boolean): boolean {
    const fault = (...faults: readonly string[]): void =>
      this.#faults.add(...faults.map((text) => `${place}: ${text}`));
    if (bytes === undefined) {
      fault(`is longer than ${maxEntryBytes} bytes`);
      return false;
    }
    const read = readItem(bytes, blankAllowed);
    if ('blank' in read) return true;
    if ('faults' in read) fault(...read.faults);
    else fault(...this.#item(place, read.item));
    return false;
  }

  #item(place: string, item: BundleItem): readonly string[] {
    const target = this.#target(item.dictionary);
    if (target === undefined) return [`there is no dictionary ${quotedName(item.dictionary)}`];
    const first = target.labels.get(item.businessKey);
    if (first !== undefined) return [`${quotedName(item.businessKey)} is in ${first} already`];
    target.labels.set(item.businessKey, place);
    return item.action === 'close' ? this.#close(target, item.businessKey) : this.#upsert(target, item);
  }

  #target(name: string): Target | undefined {
    if (this.#targets.has(name)) return this.#targets.get(name);
    const head = this.#dictionaries.head(name);
    const target =
      head === undefined || !isVisible(this.#actor, head.scope)
        ? undefined
        : { head, check: this.#validators.of(head.id, head.version), labels: new Map<string, string>() };
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
    if (published && covers(newest, validity) && (newest.data === text || sameJson(JSON.parse(newest.data), data))) {
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

// An entry of a bundle: {dictionary, businessKey, data, validFrom?, action?}.

type BundleItem = { readonly dictionary: string; readonly businessKey: string } & (
  | {
      readonly action: 'upsert';
      readonly data: JsonObject;
      /** The data as it is stored. */
      readonly text: string;
      readonly validFrom: Instant | undefined;
    }
  | { readonly action: 'close' }
);

type ReadItem =
  | { readonly item: BundleItem }
  | { readonly faults: readonly string[] }
  /** Nothing but blanks. */
  | { readonly blank: true };

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
  for (const name of Object.keys(value)) if (!fields.has(name)) faults.push(`${shown(name)} is no field of an item`);
  const { dictionary, businessKey, action = 'upsert' } = value;
  if (typeof dictionary !== 'string') faults.push('/dictionary must be a text');
  if (typeof businessKey !== 'string') faults.push('/businessKey must be a text');
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

/** A name out of an uploaded file, on one line and of bounded length. */
function shown(name: string): string {
  return JSON.stringify(name.length > 64 ? `${name.slice(0, 64)}...` : name);
}
