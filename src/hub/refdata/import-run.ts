/** A bundle as one transaction: every entry is read, checked and written; after the first fault, only checked. */
import { LinesideError } from '../../shared/base/errors.ts';
import { sameJson } from '../../shared/base/same-json.ts';
import type { Change } from '../outbox/change-store.ts';
import { type Author, isWider } from '../outbox/event.ts';
import { type BundleItem, entriesOf, maxEntryBytes, readItem } from './bundle.ts';
import { type DictionaryHead, dictionaryStatements } from './dictionaries.ts';
import type { Actor, BundleFormat, ImportResult } from './face.ts';
import { openFrom } from './input-rules.ts';
import { type DataCheck, Validators } from './json-schema.ts';
import { RecordWriter } from './record-writer.ts';
import { Faults, isVisible, quotedName } from './refusals.ts';

/** From import.ts to import-worker.ts. */
export interface ImportRequest {
  /** Of refdata.db. */
  readonly path: string;
  /** Bytes refdata.db may hold. */
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
  readonly #validators: Validators;
  readonly #writer: RecordWriter;
  /** By name; undefined: there is none for this actor. */
  readonly #targets = new Map<string, Target | undefined>();
  readonly #faults = new Faults();
  readonly #counts = { created: 0, updated: 0, closed: 0, unchanged: 0 };

  /** `noTimeLimit`: of checks in the worker. `afterItem`: throws to abort the run. */
  constructor(change: Change, actor: Actor, noTimeLimit: boolean, afterItem: () => void) {
    this.#change = change;
    this.#actor = actor;
    this.#afterItem = afterItem;
    this.#sql = dictionaryStatements(change.connection);
    this.#validators = new Validators(change.connection, noTimeLimit);
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
