import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openDatabase, openReadOnly, quickCheck } from './open.ts';

function pathFor(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-open-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return join(dir, 'x.db');
}

const options = { pageSize: 1024, cacheKib: 256, walLimitBytes: 1 << 20 };
const one = 'CREATE TABLE a (x)';

test('page size, WAL and FULL hold, also when opened again', (t) => {
  const path = pathFor(t);
  for (const migrations of [[one], [one, 'CREATE TABLE b (y)']]) {
    const connection = openDatabase({ ...options, path, migrations });
    const pragma = (name: string): unknown => connection.pragma(name, { simple: true });
    assert.deepEqual([pragma('page_size'), pragma('journal_mode'), pragma('synchronous')], [1024, 'wal', 2]);
    assert.equal(pragma('user_version'), migrations.length);
    connection.close();
  }
  const reader = openReadOnly(path);
  assert.equal(quickCheck(reader), '');
  reader.close();
});

test('a migration that fails leaves the version as it was; a newer version is refused', (t) => {
  const path = pathFor(t);
  openDatabase({ ...options, path, migrations: [one] }).close();
  assert.throws(() => openDatabase({ ...options, path, migrations: [one, 'CREATE TABLE b (y)', 'no SQL'] }), /syntax/);
  const again = openDatabase({ ...options, path, migrations: [one, 'CREATE TABLE b (y)'] });
  again.close();
  assert.throws(() => openDatabase({ ...options, path, migrations: [one] }), /schema version 2, this program knows 1/);
});
