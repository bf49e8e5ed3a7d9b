/** Writes versions of records, with their events, on any connection. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { Instant } from '../../shared/base/instant.ts';
import type { Connection } from '../../shared/storage/open.ts';
import type { Change } from '../outbox/change-store.ts';
import {
  type Action,
  isWider,
  type JsonObject,
  narrowest,
  previousDataOf,
  type RecordEvent,
  type Scope,
} from '../outbox/event.ts';
import type { DictionaryHead } from './dictionaries.ts';
import type { RecordVersion, Validity } from './face.ts';

export interface Newest extends Validity {
  readonly id: number;
  readonly closed: 0 | 1;
  readonly version: number;
  /** JSON. */
  readonly data: string;
  /** Of the dictionary when this version was written. */
  readonly scope: Scope;
}

interface Next extends Validity {
  readonly data: JsonObject;
  /** The data as it is stored. */
  readonly text: string;
}

export class RecordWriter {
  readonly #eventType: RecordEvent['eventType'];
  readonly #sql: ReturnType<typeof writeStatements>;

  constructor(connection: Connection, eventType: RecordEvent['eventType']) {
    this.#eventType = eventType;
    this.#sql = writeStatements(connection);
  }

  newest(dictionary: DictionaryHead, businessKey: string): Newest | undefined {
    const record = this.#sql.record.get(dictionary.id, businessKey);
    if (record === undefined) return undefined;
    const version = this.#sql.newest.get(dictionary.id, record.id);
    if (version === undefined)
      throw new LinesideError('STORAGE_DAMAGED', 'refdata.db has lost the version of a record');
    const { formerScope, ...rest } = version;
    return { ...record, ...rest, scope: formerScope ?? dictionary.scope };
  }

  put(
    change: Change,
    dictionary: DictionaryHead,
    businessKey: string,
    newest: Newest | undefined,
    next: Next,
  ): RecordVersion {
    if (newest === undefined || newest.closed === 1)
      return this.#write(change, dictionary, businessKey, newest, 'created', next, undefined);
    // Data that was written under a narrower scope is not published on the wider topic.
    const before = isWider(dictionary.scope, newest.scope) ? {} : (JSON.parse(newest.data) as JsonObject);
    return this.#write(change, dictionary, businessKey, newest, 'updated', next, before);
  }

  /** The event contains the closed version's data: if that was written under a narrower scope, it is sent to that topic. */
  close(change: Change, dictionary: DictionaryHead, businessKey: string, newest: Newest): RecordVersion {
    const data = JSON.parse(newest.data) as JsonObject;
    const { txTime } = change.stamp;
    // Valid as the version before was, until now; a version that only lay ahead never becomes valid.
    const validFrom = newest.validFrom < txTime ? newest.validFrom : txTime;
    const next: Next = { validFrom, validTo: txTime, data, text: newest.data };
    const published = { ...dictionary, scope: narrowest(dictionary.scope, newest.scope) };
    return this.#write(change, published, businessKey, newest, 'closed', next, data);
  }

  #write(
    change: Change,
    dictionary: DictionaryHead,
    businessKey: string,
    newest: Newest | undefined,
    action: Action,
    next: Next,
    before: JsonObject | undefined,
  ): RecordVersion {
    const { txTime, changedBy, changeReason } = change.stamp;
    const { text, ...said } = next;
    const { validFrom, validTo } = said;
    const version = (newest?.version ?? 0) + 1;
    const by = [txTime, changedBy, changeReason] as const;
    const { lastInsertRowid } = this.#sql.version.run(
      newest?.id ?? null,
      version,
      action,
      validFrom,
      validTo,
      ...by,
      text,
    );
    const id = Number(lastInsertRowid);
    this.#sql.put.run(dictionary.id, businessKey, version, action === 'closed' ? 1 : 0, id);
    const { name, scope } = dictionary;
    change.emit({
      kind: 'record',
      eventType: this.#eventType,
      scope,
      dictionary: name,
      businessKey,
      action,
      versionId: id,
      dataChars: text.length,
      previousData: previousDataOf(action, before, said.data),
    });
    return { dictionary: name, businessKey, version, action, ...said, txTime, changedBy, changeReason };
  }
}

export function writeStatements(connection: Connection) {
  return {
    /** Not joined with the version: an unknown key would cost ten times as much. */
    record: connection.prepare<[number, string], Pick<Newest, 'id' | 'closed' | 'version'>>(
      'SELECT newest_id AS id, closed, version FROM records WHERE dictionary_id = ? AND business_key = ?',
    ),
    newest: connection.prepare<
      [number, number],
      Validity & { readonly data: string; readonly formerScope: Scope | null }
    >(
      `SELECT valid_from AS validFrom, valid_to AS validTo, data, (SELECT s.scope FROM dictionary_scopes s
         WHERE s.dictionary_id = ? AND s.until > tx_time ORDER BY s.until LIMIT 1) AS formerScope
       FROM record_versions WHERE id = ?`,
    ),
    put: connection.prepare<[number, string, number, 0 | 1, number]>(
      `INSERT INTO records (dictionary_id, business_key, version, closed, newest_id) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (dictionary_id, business_key)
       DO UPDATE SET version = excluded.version, closed = excluded.closed, newest_id = excluded.newest_id`,
    ),
    version: connection.prepare<[number | null, number, Action, Instant, Instant, Instant, string, string, string]>(
      `INSERT INTO record_versions
         (previous_id, version, action, valid_from, valid_to, tx_time, changed_by, change_reason, data)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    ),
  };
}
