/**
 * Version 6 of refdata.db: versions of records in the order in which they were written, each with a link to the one before, and
 * records by their business key alone. A change writes the last page of the versions and one page of the records; until then
 * it wrote the page of the record's versions, which was split as it grew, the record and its key.
 */
import type { Batch, Estimate, Move } from '../shared/storage/migrate.ts';
import type { Connection } from '../shared/storage/open.ts';

const begin = `
ALTER TABLE records RENAME TO records_5;
ALTER TABLE record_versions RENAME TO record_versions_5;
-- One row for each business key there ever was.
CREATE TABLE records (
  dictionary_id INTEGER NOT NULL REFERENCES dictionaries (id),
  business_key TEXT NOT NULL,
  -- Of the newest version, and its id.
  version INTEGER NOT NULL,
  closed INTEGER NOT NULL,
  newest_id INTEGER NOT NULL REFERENCES record_versions (id),
  PRIMARY KEY (dictionary_id, business_key)
) WITHOUT ROWID;

-- At a time, the record is its newest version with valid_from <= time, if time < valid_to of that version.
-- The data is last: what decides whether a version holds is found without reading through it.
CREATE TABLE record_versions (
  id INTEGER PRIMARY KEY,
  -- The version before; NULL: the first.
  previous_id INTEGER,
  version INTEGER NOT NULL,
  action TEXT NOT NULL,
  valid_from TEXT NOT NULL,
  valid_to TEXT NOT NULL,
  tx_time TEXT NOT NULL,
  changed_by TEXT NOT NULL,
  change_reason TEXT NOT NULL,
  data TEXT NOT NULL
);
`;

const end = `
DROP TABLE record_versions_5;
DROP TABLE records_5;
`;

const estimatedRows = 10_000;
const batchBytes = 4 * 1024 * 1024;
/** By which a version and its record may grow: two ids, and pages that are partly used. */
const rowBytes = 64;
/** What is moved before its old pages are free, write-ahead log, catalogue. */
const reserveBytes = 32 * 1024 * 1024;

interface OldVersion {
  readonly recordId: number;
  readonly version: number;
  readonly bytes: number;
}

/** `batchRows`: moved in a transaction. */
export function recordsMigration(batchRows = 2_000) {
  const batches = (connection: Connection): (() => Batch) => {
    const sql = statements(connection);
    return () => moved(sql, batchRows);
  };
  return { sql: begin, breaksOlder: true, move: { estimate, batches, end } satisfies Move } as const;
}

function estimate(connection: Connection, alive: () => void): Estimate {
  const exists = connection.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'record_versions_5'");
  const table = exists.get() === undefined ? 'record_versions' : 'record_versions_5';
  const counted = connection.prepare<[number, number, number], { readonly n: number } & Omit<OldVersion, 'bytes'>>(
    `SELECT count(*) AS n, record_id AS recordId, max(version) AS version FROM (SELECT record_id, version FROM ${table}
       WHERE (record_id, version) > (?, ?) ORDER BY record_id, version LIMIT ?)
     GROUP BY record_id ORDER BY record_id DESC`,
  );
  let [rows, last] = [0, { recordId: 0, version: 0 }];
  for (;;) {
    const found = counted.all(last.recordId, last.version, estimatedRows);
    const [newest] = found;
    if (newest === undefined) return { rows, bytes: rows * rowBytes + reserveBytes };
    rows += found.reduce((sum, { n }) => sum + n, 0);
    last = newest;
    alive();
  }
}

function moved(sql: ReturnType<typeof statements>, batchRows: number): Batch {
  let [rows, bytes, last] = [0, 0, 0];
  // One more shows whether these are the last.
  const found = sql.page.all(batchRows + 1);
  for (const { recordId, version, bytes: size } of found.slice(0, batchRows)) {
    const { lastInsertRowid } = sql.insert.run(recordId, version);
    sql.record.run(Number(lastInsertRowid), recordId);
    sql.remove.run(recordId, version);
    rows += 1;
    bytes += size;
    last = recordId;
    if (bytes >= batchBytes) break;
  }
  // With the last version all records have been moved.
  if (rows === found.length) last = Number.MAX_SAFE_INTEGER;
  const faults = sql.lost.all(last).map((id) => `record ${id} had no version`);
  sql.forget.run(last);
  return { rows, faults };
}

function statements(connection: Connection) {
  return {
    page: connection.prepare<[number], OldVersion>(
      `SELECT record_id AS recordId, version, octet_length(data) AS bytes FROM record_versions_5
       ORDER BY record_id, version LIMIT ?`,
    ),
    insert: connection.prepare<[number, number]>(
      `INSERT INTO record_versions
         (previous_id, version, action, valid_from, valid_to, tx_time, changed_by, change_reason, data)
       SELECT (SELECT newest_id FROM records n WHERE n.dictionary_id = r.dictionary_id AND n.business_key = r.business_key),
         v.version, action, valid_from, valid_to, tx_time, changed_by, change_reason, data
       FROM record_versions_5 v JOIN records_5 r ON r.id = v.record_id WHERE v.record_id = ? AND v.version = ?`,
    ),
    record: connection.prepare<[number, number]>(
      `INSERT INTO records (dictionary_id, business_key, version, closed, newest_id)
       SELECT dictionary_id, business_key, version, closed, ? FROM records_5 WHERE id = ?
       ON CONFLICT (dictionary_id, business_key) DO UPDATE SET newest_id = excluded.newest_id`,
    ),
    lost: connection
      .prepare<[number], number>(
        `SELECT id FROM records_5 r WHERE id < ? AND NOT EXISTS
           (SELECT 1 FROM records n WHERE n.dictionary_id = r.dictionary_id AND n.business_key = r.business_key)`,
      )
      .pluck(),
    forget: connection.prepare<[number]>('DELETE FROM records_5 WHERE id < ?'),
    remove: connection.prepare<[number, number]>('DELETE FROM record_versions_5 WHERE record_id = ? AND version = ?'),
  };
}
