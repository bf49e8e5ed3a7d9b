/** better-sqlite3 alone: the rows that a change writes, by prepared statements, with all JSON made beforehand. */
import { join } from 'node:path';
import { hubMigrations } from '../../../../src/hub/migrations.ts';
import { previousDataOf } from '../../../../src/hub/outbox/event.ts';
import { beginProgress } from '../../../../src/hub/outbox/transaction.ts';
import { FAR_FUTURE } from '../../../../src/shared/base/instant.ts';
import { openDatabase } from '../../../../src/shared/storage/open.ts';
import { DICTIONARY, dataOf, instantOf, keyOf } from '../samples.ts';

/** As the hub opens its file and the import worker its own. */
const PAGE_BYTES = 1_024;
const WAL_LIMIT_BYTES = 4 * 1024 * 1024;
/** SQLite's default: checkpoints as large as the hub's own, run by the commit that makes them due. */
const CHECKPOINT_PAGES = 1_000;

export interface BareChange {
  readonly n: number;
  readonly key: string;
  readonly version: number;
  readonly at: string;
  readonly data: string;
  readonly previousData: string;
}

export function bareChange(n: number, version = 1): BareChange {
  const data = dataOf(n, version);
  const previous = version === 1 ? null : previousDataOf('updated', dataOf(n, version - 1), data);
  const texts = { data: JSON.stringify(data), previousData: JSON.stringify(previous) };
  return { n, key: keyOf(n), version, at: instantOf(n), ...texts };
}

export class BareStore {
  readonly #connection;
  readonly #begin;
  readonly #commit;
  readonly #record;
  readonly #advance;
  readonly #version;
  readonly #event;
  readonly #waiting;
  #outboxId = 0;

  constructor(dir: string, cacheKib: number) {
    const path = join(dir, 'refdata.db');
    const opened = { path, pageSize: PAGE_BYTES, cacheKib, walLimitBytes: WAL_LIMIT_BYTES, migrations: hubMigrations };
    const connection = openDatabase(opened);
    connection.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
    beginProgress(connection);
    connection.exec(
      `INSERT INTO dictionaries (id, name, title, scope, version, created_at, updated_at, changed_by)
       VALUES (1, '${DICTIONARY}', '', 'PUBLIC', 1, '', '', '')`,
    );
    this.#connection = connection;
    this.#begin = connection.prepare('BEGIN IMMEDIATE');
    this.#commit = connection.prepare('COMMIT');
    this.#record = connection.prepare<[string, number]>(
      'INSERT INTO records (dictionary_id, business_key, version, closed, newest_id) VALUES (1, ?, 1, 0, ?)',
    );
    this.#advance = connection.prepare<[number, number, string]>(
      'UPDATE records SET version = ?, closed = 0, newest_id = ? WHERE dictionary_id = 1 AND business_key = ?',
    );
    this.#version = connection.prepare<[number | null, number, string, string, string, string, string]>(
      `INSERT INTO record_versions
         (previous_id, version, action, valid_from, valid_to, tx_time, changed_by, change_reason, data)
       VALUES (?, ?, ?, ?, ?, ?, 'local', '', ?)`,
    );
    this.#event = connection.prepare<[number, string, string, string, string, number]>(
      `INSERT INTO outbox_events (id, tx_time, category, scope, dictionary, business_key, action, body, version_id, event_type)
       VALUES (?, ?, 'dict.record.*', 'PUBLIC', '${DICTIONARY}', ?, ?, ?, ?, 'dictionary.changed')`,
    );
    this.#waiting = connection.prepare<[number]>(
      "INSERT INTO outbox_waiting (id, attempts, last_error) VALUES (?, 0, '')",
    );
  }

  /** One transaction; answers the versions' ids. */
  create(changes: readonly BareChange[]): number[] {
    this.#begin.run();
    const ids = changes.map((change) => {
      const id = this.#write(null, 'created', change);
      this.#record.run(change.key, id);
      return id;
    });
    this.#commit.run();
    return ids;
  }

  update(id: number, change: BareChange): void {
    this.#begin.run();
    this.#advance.run(change.version, this.#write(id, 'updated', change), change.key);
    this.#commit.run();
  }

  close(): void {
    this.#connection.close();
  }

  #write(previous: number | null, action: string, { version, at, key, data, previousData }: BareChange): number {
    const { lastInsertRowid } = this.#version.run(previous, version, action, at, FAR_FUTURE, at, data);
    this.#event.run(++this.#outboxId, at, key, action, previousData, Number(lastInsertRowid));
    this.#waiting.run(this.#outboxId);
    return Number(lastInsertRowid);
  }
}
