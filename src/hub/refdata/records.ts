/** Records: changes, bulk close, and reads: as of a time, of a whole dictionary, of a history. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { ExpectedVersion } from '../../shared/base/expected-version.ts';
import { type Instant, parseInstant } from '../../shared/base/instant.ts';
import type { Connection } from '../../shared/storage/open.ts';
import type { Change, ChangeStore } from '../outbox/change-store.ts';
import { faultAt, type JsonObject, reasonFaults } from '../outbox/event.ts';
import { cursorAfter, type Page, type PageRequest, pageOf, positionOf } from '../outbox/paging.ts';
import type { Dictionaries, DictionaryHead } from './dictionaries.ts';
import type { Actor, RecordChange, RecordVersion } from './face.ts';
import { dataChecks } from './json-schema.ts';
import { type Newest, RecordWriter } from './record-writer.ts';
import {
  businessKeyFault,
  checkData,
  Faults,
  notAnInstant,
  openFrom,
  quotedName,
  refuseFaults,
  requireVersion,
} from './rules.ts';

/** They take about 0.3 s of this thread. */
const maxKeysClosed = 10_000;

interface StoredVersion extends Omit<RecordVersion, 'data' | 'dictionary'> {
  readonly data: string;
}

/** Which records a list shows. */
export interface RecordFilter {
  /** RFC 3339; undefined: now. */
  readonly at?: string | undefined;
  /** all: each in its newest version, whether that is valid or not. */
  readonly which?: 'valid' | 'all' | undefined;
  /** Of the business keys. */
  readonly prefix?: string | undefined;
}

/** Not below any key: no key has so many characters. */
const lastKey = '\u{10ffff}'.repeat(256);

/** Keys that one page reads: about 50 ms of this thread. If most records are closed, a page may have fewer items than its limit. */
const keysOfPage = 10_000;

export class Records {
  readonly #store: ChangeStore;
  readonly #dictionaries: Dictionaries;
  readonly #writer: RecordWriter;
  readonly #checkOf: ReturnType<typeof dataChecks>;
  readonly #sql: ReturnType<typeof readStatements>;

  constructor(store: ChangeStore, dictionaries: Dictionaries) {
    this.#store = store;
    this.#dictionaries = dictionaries;
    this.#writer = new RecordWriter(store.connection, 'dictionary.changed');
    this.#checkOf = dataChecks(store.connection);
    this.#sql = readStatements(store.connection);
  }

  /** A closed business key is reopened, and its versions continue. CONFLICT: it is open. */
  async create(actor: Actor, dictionary: string, businessKey: string, wanted: RecordChange): Promise<RecordVersion> {
    const keyFaults = faultAt('/businessKey', businessKeyFault(businessKey));
    return this.#put(actor, dictionary, businessKey, wanted, keyFaults, (newest) => {
      if (newest === undefined || newest.closed === 1) return;
      throw new LinesideError('CONFLICT', `there is a record ${quotedName(businessKey)} in ${dictionary} already`, {
        hint: `It has version ${newest.version}: update it, or close it first.`,
      });
    });
  }

  /** `version`: of If-Match; undefined: VERSION_REQUIRED. CONFLICT: the record is closed. */
  async update(
    actor: Actor,
    dictionary: string,
    businessKey: string,
    wanted: RecordChange,
    version: ExpectedVersion | undefined,
  ): Promise<RecordVersion> {
    return this.#put(actor, dictionary, businessKey, wanted, [], (newest, now) => {
      requireOpen(dictionary, businessKey, newest, version, now);
    });
  }

  async #put(
    actor: Actor,
    dictionary: string,
    businessKey: string,
    wanted: RecordChange,
    faults: readonly string[],
    mayChange: (newest: Newest | undefined, now: Instant) => void,
  ): Promise<RecordVersion> {
    const { data, validFrom: asked, changeReason = '' } = wanted;
    const checked = checkData(data);
    const given = openFrom(asked, '');
    const early = [
      ...faults,
      ...faultAt('/data', checked.fault ?? ''),
      ...faultAt('/validFrom', typeof given === 'string' ? given : ''),
      ...reasonFaults(changeReason),
    ];
    return this.#store.commitShared({ changedBy: actor.name, changeReason }, (change) => {
      const head = this.#dictionaries.head(actor, dictionary);
      const bySchema =
        checked.fault === undefined ? this.#checkOf(head.id, head.version)(data, checked.text.length) : [];
      refuseFaults('the record cannot be written', [...early, ...bySchema]);
      const newest = this.#writer.newest(head, businessKey);
      mayChange(newest, change.stamp.txTime);
      const validity = openFrom(asked, change.stamp.txTime);
      if (typeof validity === 'string' || checked.fault !== undefined) throw new Error('a fault was not refused');
      return this.#writer.put(change, head, businessKey, newest, { ...validity, data, text: checked.text });
    });
  }

  async close(
    actor: Actor,
    dictionary: string,
    businessKey: string,
    changeReason: string,
    version: ExpectedVersion | undefined,
  ): Promise<RecordVersion> {
    refuseFaults('the record cannot be closed', reasonFaults(changeReason));
    return this.#store.commitShared({ changedBy: actor.name, changeReason }, (change) => {
      const head = this.#dictionaries.head(actor, dictionary);
      const found = this.#writer.newest(head, businessKey);
      const newest = requireOpen(dictionary, businessKey, found, version, change.stamp.txTime);
      return this.#writer.close(change, head, businessKey, newest);
    });
  }

  /** One transaction; every fault in `reasons`. */
  async bulkClose(
    actor: Actor,
    dictionary: string,
    businessKeys: readonly string[],
    changeReason: string,
  ): Promise<{ readonly txTime: Instant; readonly closed: number }> {
    refuseFaults('the records cannot be closed', [
      ...(businessKeys.length === 0 ? ['/businessKeys must not be empty'] : []),
      ...(businessKeys.length > maxKeysClosed ? [`/businessKeys must have at most ${maxKeysClosed} keys`] : []),
      ...reasonFaults(changeReason),
    ]);
    return this.#store.commitShared({ changedBy: actor.name, changeReason }, (change) => {
      const head = this.#dictionaries.head(actor, dictionary);
      const faults = this.#closeAll(change, head, businessKeys);
      refuseFaults('the records cannot be closed', faults.reasons);
      change.audit('records.bulkClosed', dictionary, { closed: businessKeys.length, changeReason });
      return { txTime: change.stamp.txTime, closed: businessKeys.length };
    });
  }

  #closeAll(change: Change, head: DictionaryHead, businessKeys: readonly string[]): Faults {
    const faults = new Faults();
    const places = new Map<string, number>();
    businessKeys.forEach((key, place) => {
      const first = places.get(key);
      const newest = this.#writer.newest(head, key);
      if (first !== undefined) faults.add(`/businessKeys/${place} is there already at /businessKeys/${first}`);
      else if (newest === undefined) faults.add(`/businessKeys/${place} there is no record ${quotedName(key)}`);
      else if (newest.closed === 1)
        faults.add(`/businessKeys/${place} the record ${quotedName(key)} is closed already`);
      else if (faults.count === 0) this.#writer.close(change, head, key, newest);
      if (first === undefined) places.set(key, place);
    });
    return faults;
  }

  // Reads: as of a time, of all of a dictionary, of a history.

  /** `at`: RFC 3339; undefined: now. NOT_FOUND, with a hint if the record is known but not valid then. */
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

  /** By business key. */
  page(actor: Actor, dictionary: string, filter: RecordFilter, page: PageRequest): Page<RecordVersion> {
    const { at, which = 'valid', prefix = '' } = filter;
    const asked = this.#time(at);
    if (which === 'all' && at !== undefined)
      refuseFaults('the records cannot be listed', [
        'which=all has each record in its newest version: at has no meaning',
      ]);
    const { id } = this.#dictionaries.head(actor, dictionary);
    // All pages of a list show the moment of the first, unless the caller names one.
    const [begun, after] = positionOf<[Instant, string]>('records', page, [asked, '']);
    const time = at === undefined ? this.#time(begun) : asked;
    // Keys have no control characters: no key lies between the last one and this.
    const keys = { dictionary: id, from: after === '' ? '' : `${after}\0`, prefix, to: `${prefix}${lastKey}` };
    const last = this.#sql.slice.get({ ...keys, skipped: keysOfPage - 1 });
    const wanted = { ...keys, to: last ?? keys.to, at: time, limit: page.limit + 1 };
    const { items, nextCursor } = pageOf(this.#sql[which].iterate(wanted), page, {
      ...versionPage(dictionary),
      cursorOf: ({ businessKey }) => cursorAfter('records', time, businessKey),
    });
    return { items, nextCursor: nextCursor ?? (last === undefined ? undefined : cursorAfter('records', time, last)) };
  }

  history(actor: Actor, dictionary: string, businessKey: string, page: PageRequest): Page<RecordVersion> {
    const { id } = this.#dictionaries.head(actor, dictionary);
    const [before] = positionOf('history', page, [Number.MAX_SAFE_INTEGER]);
    const newest = this.#sql.known.get(id, businessKey);
    if (newest === undefined) throw recordNotFound(dictionary, businessKey);
    return pageOf(this.#sql.history.iterate({ businessKey, newest, before, limit: page.limit + 1 }), page, {
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

/** Throws NOT_FOUND, VERSION_REQUIRED, STALE_VERSION, and CONFLICT for a closed record, in this order. */
function requireOpen(
  dictionary: string,
  businessKey: string,
  newest: Newest | undefined,
  version: ExpectedVersion | undefined,
  now: Instant,
): Newest {
  if (newest === undefined) throw recordNotFound(dictionary, businessKey);
  const what = `the record ${quotedName(businessKey)} of ${dictionary}`;
  // Reading it now returns the version before.
  const ahead = newest.closed === 0 && newest.validFrom > now;
  requireVersion(
    what,
    newest.version,
    version,
    ahead ? `It is valid from ${newest.validFrom} on: see its history.` : undefined,
  );
  if (newest.closed === 0) return newest;
  throw new LinesideError('CONFLICT', `${what} is closed`, { hint: 'Create it again to open it.' });
}

function recordNotFound(dictionary: string, businessKey: string): LinesideError {
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

interface Keys {
  readonly dictionary: number;
  readonly from: string;
  readonly prefix: string;
  readonly to: string;
}

interface WantedPage extends Keys {
  readonly at: Instant;
  readonly limit: number;
}

export function readStatements(connection: Connection) {
  const columns = `v.version, v.action, v.data, v.valid_from AS validFrom, v.valid_to AS validTo, v.tx_time AS txTime,
    v.changed_by AS changedBy, v.change_reason AS changeReason`;
  /** The versions of a record, newest first. */
  const back = (newest: string): string => `WITH RECURSIVE back (id, version, valid_from, previous_id) AS (
    SELECT id, version, valid_from, previous_id FROM record_versions WHERE id = ${newest}
    UNION ALL
    SELECT w.id, w.version, w.valid_from, w.previous_id FROM back JOIN record_versions w ON w.id = back.previous_id)`;
  // The newest version that is valid from `at` or before: nearly always the newest.
  const newestAt = `(${back('r.newest_id')} SELECT id FROM back WHERE valid_from <= :at LIMIT 1)`;
  const keys = 'r.dictionary_id = :dictionary AND r.business_key >= max(:from, :prefix) AND r.business_key <= :to';
  const validAt = `records r JOIN record_versions v ON v.id = ${newestAt}`;
  return {
    at: connection.prepare<[{ dictionary: number; key: string; at: Instant }], StoredVersion>(
      `SELECT r.business_key AS businessKey, ${columns} FROM ${validAt}
       WHERE r.dictionary_id = :dictionary AND r.business_key = :key AND v.valid_to > :at`,
    ),
    known: connection
      .prepare<[number, string], number>('SELECT newest_id FROM records WHERE dictionary_id = ? AND business_key = ?')
      .pluck(),
    /** The last key of a slice of keys, in their order: what one page reads. */
    slice: connection
      .prepare<[Keys & { skipped: number }], string>(
        `SELECT business_key FROM records r WHERE ${keys} ORDER BY business_key LIMIT 1 OFFSET :skipped`,
      )
      .pluck(),
    valid: connection.prepare<[WantedPage], StoredVersion>(
      `SELECT r.business_key AS businessKey, ${columns} FROM ${validAt}
       WHERE ${keys} AND v.valid_to > :at ORDER BY r.business_key LIMIT :limit`,
    ),
    all: connection.prepare<[WantedPage], StoredVersion>(
      `SELECT r.business_key AS businessKey, ${columns} FROM records r JOIN record_versions v ON v.id = r.newest_id
       WHERE ${keys} ORDER BY r.business_key LIMIT :limit`,
    ),
    history: connection.prepare<
      [{ readonly businessKey: string; readonly newest: number; readonly before: number; readonly limit: number }],
      StoredVersion
    >(
      `${back(':newest')} SELECT :businessKey AS businessKey, ${columns}
       FROM back CROSS JOIN record_versions v ON v.id = back.id WHERE back.version < :before LIMIT :limit`,
    ),
  };
}
