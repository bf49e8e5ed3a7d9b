import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { FakeClock } from '../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../shared/base/logger.ts';
import { temporaryDirectory } from '../shared/base/temporary.fixture.ts';
import { hubMigrations } from './migrations.ts';
import { author } from './outbox/change-store.fixture.ts';
import { type ChangeStore, openChangeStore } from './outbox/change-store.ts';
import { emitEvent, recordEvent } from './outbox/event.fixture.ts';
import { openRefdataFile } from './outbox/refdata-file.ts';
import { RecordWriter } from './refdata/record-writer.ts';

test('a file from before there were webhooks keeps its events, and none of them is for a subscription', async (t) => {
  const dir = temporaryDirectory(t);
  const clock = new FakeClock();
  const options = { dir, maxBytes: 1 << 30, minFreeBytes: 0, clock, logger: silentLogger };
  const { connection: before } = openRefdataFile(dir, hubMigrations.slice(0, 1));
  // The newest may have left the outbox: its id is not used again. That version kept it with each change.
  before.exec(`
    INSERT INTO progress VALUES (1, 'store', '2026-01-01T00:00:00+00:00', 3);
    INSERT INTO outbox_events VALUES (1, '2026-01-01T00:00:00+00:00', 'dict.record.*', 'PUBLIC', 'tools', 'a', 'created', '{"first":1}');
    INSERT INTO outbox_events VALUES (2, '2026-01-01T00:00:00+00:00', 'dict.record.*', 'PUBLIC', 'tools', 'b', 'created', '{"second":2}');
    INSERT INTO outbox_waiting VALUES (2, 0, '')`);
  before.close();
  const store = openChangeStore({ ...options, connection: openRefdataFile(dir, hubMigrations).connection });
  t.after(() => store.close());
  const { connection } = store;
  assert.deepEqual(connection.prepare('SELECT id, business_key AS key, waiting, body FROM outbox').all(), [
    { id: 1, key: 'a', waiting: 0, body: '{"first":1}' },
    { id: 2, key: 'b', waiting: 1, body: '{"second":2}' },
  ]);
  assert.deepEqual(connection.prepare('SELECT last_event, run_ms FROM webhook_progress').all(), [
    { last_event: 3, run_ms: 0 },
  ]);
  assert.equal(store.storeId, 'store');
  assert.equal(await store.commit(author, (change) => emitEvent(change, recordEvent('d'))), 4);
});

test('the newest event has left the outbox: neither its id nor its time is used again, also when the clock was set back', async (t) => {
  const dir = temporaryDirectory(t);
  const open = (wallMs: number) => {
    const { connection } = openRefdataFile(dir, hubMigrations);
    const clock = new FakeClock();
    clock.stepWall(wallMs);
    return openChangeStore({ connection, dir, maxBytes: 1 << 30, minFreeBytes: 0, clock, logger: silentLogger });
  };
  const emit = (store: ChangeStore) =>
    store.commit(author, (change) => [emitEvent(change, recordEvent('a')), change.stamp.txTime] as const);
  const before = open(2_000);
  await emit(before);
  const [id, txTime] = await emit(before);
  await before.maintain(() => before.connection.exec('DELETE FROM outbox_waiting; DELETE FROM outbox_events'));
  await before.close();
  const store = open(1_000);
  t.after(() => store.close());
  const [nextId, nextTime] = await emit(store);
  assert.equal(nextId, id + 1);
  assert.ok(nextTime > txTime, `${nextTime} after ${txTime}`);
});

test('the audit shows which records of a dictionary are older than its wider scope', async (t) => {
  const dir = temporaryDirectory(t);
  const { connection: before } = openRefdataFile(dir, hubMigrations.slice(0, 2));
  before.exec(`
    INSERT INTO dictionaries VALUES (7, 'tools', 'Tools', 'PUBLIC', 3, '2026-01-01', '2026-01-03', 'me', NULL);
    INSERT INTO audit VALUES (1, '2026-01-01', 'me', 'dictionary.created', 'tools', '{"scope":"RESTRICTED"}');
    INSERT INTO audit VALUES (2, '2026-01-02', 'me', 'dictionary.updated', 'tools', '{"scope":"RESTRICTED"}');
    INSERT INTO audit VALUES (3, '2026-01-03', 'me', 'dictionary.updated', 'tools', '{"scope":"PUBLIC"}');
    INSERT INTO records VALUES (1, 7, 'saw', 1, 0);
    INSERT INTO record_versions VALUES (1, 1, 'created', '2026-01-02', '9999', '2026-01-02', 'me', '', '{"a":"old"}')`);
  before.close();
  const { connection } = openRefdataFile(dir, hubMigrations);
  t.after(() => connection.close());
  const writer = new RecordWriter(connection, 'dictionary.changed');
  const head = { id: 7, name: 'tools', scope: 'PUBLIC', version: 3 } as const;
  assert.equal(writer.newest(head, 'saw')?.scope, 'RESTRICTED');
  // A program of the slot before, which knows nothing of scopes at times.
  connection.exec("UPDATE dictionaries SET scope = 'INTERNAL', updated_at = '2026-01-04' WHERE id = 7");
  const scopes = connection.prepare('SELECT scope FROM dictionary_scopes ORDER BY until').pluck().all();
  assert.deepEqual(scopes, ['RESTRICTED', 'PUBLIC']);
});

/** CPU time of a process in 10 ms: what counts without end is at work. */
function userTicks(pid = 0): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[11]);
}

test('killed while the tables are made: the next start makes them', async (t) => {
  const dir = temporaryDirectory(t);
  const path = join(dir, 'refdata.db');
  // The real tables, then work that does not end before the kill.
  const never = 'WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n';
  const program = `
    import { openDatabase } from './src/shared/storage/open.ts';
    import { hubMigrations } from './src/hub/migrations.ts';
    const migrations = [...hubMigrations, ${JSON.stringify(never)}];
    openDatabase({ path: ${JSON.stringify(path)}, pageSize: 4096, cacheKib: 16, walLimitBytes: 1 << 20, migrations });`;
  const args = ['--input-type=module', '-e', program];
  const child = spawn(process.execPath, args, { cwd: join(import.meta.dirname, '../..'), stdio: 'inherit' });
  const ended = once(child, 'exit');
  t.after(() => child.kill('SIGKILL'));
  const look = async (what: () => boolean): Promise<void> => {
    while (!what()) {
      assert.equal(child.exitCode, null, 'it exited before the kill');
      await sleep(10);
    }
  };
  await look(() => existsSync(`${path}-wal`));
  const before = userTicks(child.pid);
  await look(() => userTicks(child.pid) > before + 10);
  child.kill('SIGKILL');
  await ended;
  const { connection } = openRefdataFile(dir, hubMigrations);
  t.after(() => connection.close());
  assert.equal(connection.pragma('user_version', { simple: true }), hubMigrations.length);
  assert.equal(connection.prepare('SELECT count(*) FROM outbox').pluck().get(), 0);
});
