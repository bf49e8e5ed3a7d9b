import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../shared/base/temporary.fixture.ts';
import { atEachKill, growthBy } from '../shared/storage/interrupted.fixture.ts';
import { checkReadable, migrate, migrating } from '../shared/storage/migrate.ts';
import type { Connection, Migrations } from '../shared/storage/open.ts';
import { connect } from './contents-migration.fixture.ts';
import { hubMigrations } from './migrations.ts';
import { openRefdataFile } from './outbox/refdata-file.ts';
import { recordsMigration } from './records-migration.ts';

const before = hubMigrations.slice(0, 5);
const withRecords = hubMigrations.slice(0, 6);
const inSmallBatches: Migrations = [...before, recordsMigration(7)];

const said = 'v.version, action, valid_from, valid_to, tx_time, changed_by, change_reason, data';

/** Every record with its versions, the newest first. */
function stateOf(connection: Connection): unknown {
  const isMoved = connection.pragma('user_version', { simple: true }) === 6;
  const versions = isMoved
    ? `WITH RECURSIVE versions (dictionary_id, business_key, id) AS (
         SELECT dictionary_id, business_key, newest_id FROM records
         UNION ALL SELECT dictionary_id, business_key, previous_id FROM versions JOIN record_versions USING (id)
         WHERE previous_id IS NOT NULL)
       SELECT dictionary_id, business_key, ${said} FROM versions JOIN record_versions v USING (id)`
    : `SELECT dictionary_id, business_key, ${said} FROM record_versions v JOIN records r ON r.id = v.record_id`;
  const order = 'ORDER BY dictionary_id, business_key';
  return {
    records: connection.prepare(`SELECT dictionary_id, business_key, version, closed FROM records ${order}`).all(),
    versions: connection.prepare(`${versions} ${order}, v.version DESC`).all(),
  };
}

/** Of version 5: each record has 1 to 5 versions, the fourth one closed; those of several records are written in turns. */
function sample(t: TestContext, records = 20, dataBytes = 100) {
  const dir = temporaryDirectory(t);
  openRefdataFile(dir, before).connection.close();
  const path = join(dir, 'refdata.db');
  const connection = connect(path);
  t.after(() => connection.close());
  connection.exec(`INSERT INTO dictionaries (id, name, title, scope, version, created_at, updated_at, changed_by)
    VALUES (3, 'tools', '', 'PUBLIC', 1, '', '', ''), (7, 'sites', '', 'INTERNAL', 1, '', '', '')`);
  const record = connection.prepare('INSERT INTO records VALUES (?, ?, ?, ?, ?)');
  const version = connection.prepare('INSERT INTO record_versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)');
  connection.transaction(() => {
    const last = (n: number): number => 1 + (n % 5);
    for (let n = 1; n <= records; n++)
      record.run(n, n % 3 === 0 ? 7 : 3, `Schlüssel ${n}`, last(n), last(n) === 4 ? 1 : 0);
    for (let v = 1; v <= 5; v++)
      for (let n = 1; n <= records; n++) {
        if (v > last(n)) continue;
        const action = v === 1 ? 'created' : v === 4 ? 'closed' : 'updated';
        version.run(
          n,
          v,
          action,
          `from ${v}`,
          `to ${v}`,
          `at ${v} ${n}`,
          'anna',
          'why',
          `{"n":"${'ä'.repeat(dataBytes)}"}`,
        );
      }
  })();
  return { path, connection, was: stateOf(connection) };
}

function isMoved(connection: Connection, was: unknown): void {
  assert.equal(connection.pragma('user_version', { simple: true }), 6);
  assert.deepEqual(stateOf(connection), was);
  const versions = connection.prepare('SELECT count(*) FROM record_versions').pluck().get();
  assert.equal(versions, (was as { versions: unknown[] }).versions.length);
  assert.equal(connection.pragma('integrity_check', { simple: true }), 'ok');
  assert.deepEqual(connection.pragma('foreign_key_check'), []);
}

test('every record has its versions, and a moved file has the tables of a new one', (t) => {
  const { connection, was } = sample(t);
  migrate(connection, inSmallBatches);
  isMoved(connection, was);
  const { connection: fresh } = openRefdataFile(temporaryDirectory(t), withRecords);
  t.after(() => fresh.close());
  const tables = (of: Connection) =>
    of
      .prepare("SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name")
      .all();
  assert.deepEqual(tables(connection), tables(fresh));
});

test('a record that has lost its versions is in the log', (t) => {
  const { connection } = sample(t);
  connection.exec('DELETE FROM record_versions WHERE record_id IN (5, 20)');
  const was = stateOf(connection) as { records: { business_key: string }[]; versions: unknown };
  const faults = [...migrating(connection, inSmallBatches)].flatMap((batch) => batch.faults);
  assert.deepEqual(faults, ['record 5 had no version', 'record 20 had no version']);
  isMoved(connection, { ...was, records: was.records.filter((one) => !/ (?:5|20)$/.test(one.business_key)) });
});

test('killed at any statement, it continues; until it is complete no other program opens the file', (t) => {
  const { path, connection, was } = sample(t);
  const kills = atEachKill(t, path, connection, (killed) => {
    const copy = connect(killed);
    if (copy.pragma('user_version', { simple: true }) !== 5)
      assert.throws(() => checkReadable(copy, before), /has schema version/);
    migrate(copy, inSmallBatches);
    isMoved(copy, was);
    copy.close();
  });
  migrate(connection, inSmallBatches);
  isMoved(connection, was);
  assert.ok(kills() > 10, `${kills()} states of the files`);
});

test('the estimate is above what a file grows by, and the write-ahead log stays small', (t) => {
  for (const [records, dataBytes] of [
    [4_000, 30],
    [1_000, 400],
    [200, 2_000],
    // 27 MB of data: more than the write-ahead log may have.
    [45, 100_000],
  ] as const) {
    const { path, connection, was } = sample(t, records, dataBytes);
    connection.pragma('wal_checkpoint(TRUNCATE)');
    const { move } = recordsMigration();
    const { rows, bytes } = move.estimate(connection, () => {});
    assert.equal(rows, (was as { versions: unknown[] }).versions.length);
    const { growth, wal } = growthBy(withRecords, path, connection);
    t.diagnostic(`${rows} rows: ${growth} of ${bytes}`);
    assert.ok(growth <= bytes, `${growth} of ${bytes}`);
    assert.ok(wal < 24 * 1024 * 1024, `${wal} bytes of write-ahead log`);
    isMoved(connection, was);
  }
});
