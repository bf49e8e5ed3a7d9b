/** Reading records: as of a time, all of a dictionary, a record's history. */
import { LinesideError } from '../../shared/base/errors.ts';
import { type Instant, parseInstant } from '../../shared/base/instant.ts';
import type { Connection } from '../../shared/storage/open.ts';
import type { ChangeStore } from '../outbox/change-store.ts';
import type { JsonObject } from '../outbox/event.ts';
import { cursorAfter, type Page, type PageRequest, pageOf, positionOf } from '../outbox/paging.ts';
import type { Dictionaries } from './dictionaries.ts';
import type { Actor, RecordVersion } from './face.ts';
import { quotedName, refuseFaults } from './refusals.ts';
import { notAnInstant } from './validity.ts';

interface StoredVersion extends Omit<RecordVersion, 'data' | 'dictionary'> {
  readonly data: string;
}

/**
 * Keys that one page reads: some 50 ms of this thread. If most records are closed, or not valid yet, a page may
 * thus hold less than its limit and still have a next one.
 */
const keysOfPage = 10_000;

interface AtParameters {
  readonly dictionary: number;
  readonly key: string;
  readonly at: Instant;
}
interface PageParameters {
  readonly dictionary: number;
  readonly at: Instant;
  readonly after: string;
  readonly last: string | null;
  readonly limit: number;
}

export class RecordReads {
  readonly #store: ChangeStore;
  readonly #dictionaries: Dictionaries;
  readonly #sql: ReturnType<typeof readStatements>;

  constructor(store: ChangeStore, dictionaries: Dictionaries) {
    this.#store = store;
    this.#dictionaries = dictionaries;
    this.#sql = readStatements(store.connection);
  }

  /** As of `at` (RFC 3339; undefined: now). NOT_FOUND, with a hint if it is known but not valid then. */
  one(actor: Actor, dictionary: string, businessKey: string, at: string | undefined): RecordVersion {
    const time = this.#time(at);
    const { id } = this.#dictionaries.head(actor, dictionary);
    const row = this.#sql.at.get({ dictionary: id, key: businessKey, at: time });
    if (row !== undefined) return versionOf(dictionary, row);
    throw this.#sql.known.get(id, businessKey) === undefined
      ? recordNotFound(dictionary, businessKey)
      : new LinesideError('NOT_FOUND', `${quotedName(businessKey)} of ${dictionary} is not valid at ${time}`, {
          hint: 'Its history shows when it is.',
        });
  }

  /** Records valid at `at`, by business key. */
  page(actor: Actor, dictionary: string, at: string | undefined, page: PageRequest): Page<RecordVersion> {
    const asked = this.#time(at);
    const { id } = this.#dictionaries.head(actor, dictionary);
    // All pages of a list show the same moment, unless the caller says otherwise.
    const [begun, after] = positionOf('records', page, [asked, '']);
    const time = at === undefined ? this.#time(begun) : asked;
    const last = this.#sql.slice.get(id, after, keysOfPage - 1) ?? null;
    const rows = this.#sql.page.iterate({ dictionary: id, at: time, after, last, limit: page.limit + 1 });
    const { items, nextCursor } = pageOf(rows, page, {
      ...versionPage(dictionary),
      cursorOf: ({ businessKey }) => cursorAfter('records', time, businessKey),
    });
    return { items, nextCursor: nextCursor ?? (last === null ? undefined : cursorAfter('records', time, last)) };
  }

  /** All versions, newest first. */
  history(actor: Actor, dictionary: string, businessKey: string, page: PageRequest): Page<RecordVersion> {
    const { id } = this.#dictionaries.head(actor, dictionary);
    const [before] = positionOf('history', page, [Number.MAX_SAFE_INTEGER]);
    const record = this.#sql.known.get(id, businessKey);
    if (record === undefined) throw recordNotFound(dictionary, businessKey);
    return pageOf(this.#sql.history.iterate(record, before, page.limit + 1), page, {
      ...versionPage(dictionary),
      cursorOf: ({ version }) => cursorAfter('history', version),
    });
  }

  #time(at: string | undefined): Instant {
    if (at === undefined) return this.#store.now();
    const time = parseInstant(at);
    if (time === undefined) refuseFaults('the time cannot be read', [`at ${notAnInstant}`]);
    return time ?? '';
  }
}

export function recordNotFound(dictionary: string, businessKey: string): LinesideError {
  return new LinesideError('NOT_FOUND', `there is no record ${quotedName(businessKey)} in ${dictionary}`);
}

function versionPage(dictionary: string) {
  return {
    show: (row: StoredVersion) => versionOf(dictionary, row),
    sizeOf: ({ data }: StoredVersion) => data.length,
  };
}

function versionOf(dictionary: string, row: StoredVersion): RecordVersion {
  return { dictionary, ...row, data: JSON.parse(row.data) as JsonObject };
}

export function readStatements(connection: Connection) {
  const columns = `r.business_key AS businessKey, v.version, v.action, v.data, v.valid_from AS validFrom,
    v.valid_to AS validTo, v.tx_time AS txTime, v.changed_by AS changedBy, v.change_reason AS changeReason`;
  // validity.ts, versionAt: the newest version that is valid from `at` or before.
  const newestAt = `(SELECT w.version FROM record_versions w WHERE w.record_id = r.id AND w.valid_from <= :at
    ORDER BY w.version DESC LIMIT 1)`;
  const validAt = `records r JOIN record_versions v ON v.record_id = r.id AND v.version = ${newestAt}`;
  return {
    at: connection.prepare<[AtParameters], StoredVersion>(
      `SELECT ${columns} FROM ${validAt}
       WHERE r.dictionary_id = :dictionary AND r.business_key = :key AND v.valid_to > :at`,
    ),
    known: connection
      .prepare<[number, string], number>('SELECT id FROM records WHERE dictionary_id = ? AND business_key = ?')
      .pluck(),
    /** The last key of a slice of keys, in their order: what one page reads. */
    slice: connection
      .prepare<[number, string, number], string>(
        `SELECT business_key FROM records WHERE dictionary_id = ? AND business_key > ?
         ORDER BY business_key LIMIT 1 OFFSET ?`,
      )
      .pluck(),
    page: connection.prepare<[PageParameters], StoredVersion>(
      `SELECT ${columns} FROM ${validAt}
       WHERE r.dictionary_id = :dictionary AND r.business_key > :after AND (:last IS NULL OR r.business_key <= :last)
         AND v.valid_to > :at
       ORDER BY r.business_key LIMIT :limit`,
    ),
    history: connection.prepare<[number, number, number], StoredVersion>(
      `SELECT ${columns} FROM record_versions v JOIN records r ON r.id = v.record_id
       WHERE v.record_id = ? AND v.version < ? ORDER BY v.version DESC LIMIT ?`,
    ),
  };
}
