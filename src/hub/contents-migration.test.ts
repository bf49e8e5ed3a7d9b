import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { type TestContext, test } from 'node:test';
import { deflateSync } from 'node:zlib';
import { LinesideError } from '../shared/base/errors.ts';
import { temporaryDirectory } from '../shared/base/temporary.fixture.ts';
import { aroundStatements, atEachKill, growthBy } from '../shared/storage/interrupted.fixture.ts';
import { checkReadable, migrate, migrating } from '../shared/storage/migrate.ts';
import type { Connection, Migrations } from '../shared/storage/open.ts';
import {
  addDeliveries,
  bodiesAfter,
  bodiesBefore,
  connect,
  sampleBodies,
  sampleIn,
} from './contents-migration.fixture.ts';
import { contentsMigration } from './contents-migration.ts';
import { hubMigrations } from './migrations.ts';
import { openRefdataFile } from './outbox/refdata-file.ts';

const before = hubMigrations.slice(0, 4);
const withContents: Migrations = [...before, contentsMigration()];
/** Several batches for the few deliveries of the sample. */
const inSmallBatches: Migrations = [...before, contentsMigration(5)];

function rowsOf(connection: Connection, sql: string): readonly unknown[] {
  return connection.prepare(sql).all();
}

const stays = `id, nonce, subscription_id, state, attempts, attempts_before, due_run_ms, ended_at, ended_run_ms`;

/** What must be the same before and after: everything but the tables that deliveries were made by. */
function stateOf(connection: Connection): unknown {
  const columns = rowsOf(
    connection,
    "SELECT name FROM pragma_table_info('webhook_subscriptions') WHERE name <> 'form_id'",
  );
  const names = columns.map((column) => (column as { name: string }).name).join(', ');
  return {
    deliveries: rowsOf(connection, `SELECT ${stays} FROM webhook_deliveries ORDER BY id`),
    subscriptions: rowsOf(connection, `SELECT ${names} FROM webhook_subscriptions ORDER BY id`),
    attempts: rowsOf(connection, 'SELECT * FROM webhook_attempts'),
    answers: rowsOf(connection, 'SELECT * FROM webhook_answers'),
    progress: rowsOf(connection, 'SELECT last_event, run_ms, boot_id, boot_ms FROM webhook_progress'),
    events: rowsOf(connection, 'SELECT * FROM outbox'),
    sequences: rowsOf(
      connection,
      `SELECT name, seq FROM sqlite_sequence WHERE name IN ('webhook_answers', 'webhook_subscriptions') ORDER BY name`,
    ),
    lastDelivery: connection.prepare(lastDelivery(connection)).pluck().get(),
  };
}

/** Also when the newest deliveries were removed. */
function lastDelivery(connection: Connection): string {
  const names = rowsOf(connection, "SELECT name FROM pragma_table_info('webhook_progress')");
  return names.some((row) => (row as { name: string }).name === 'last_delivery')
    ? 'SELECT last_delivery FROM webhook_progress'
    : "SELECT seq FROM sqlite_sequence WHERE name = 'webhook_deliveries'";
}

interface Before {
  readonly state: unknown;
  readonly bodies: ReadonlyMap<number, string | null>;
}

function stand(connection: Connection): Before {
  return { state: stateOf(connection), bodies: bodiesBefore(connection) };
}

function isMoved(connection: Connection, { state, bodies }: Before): void {
  assert.deepEqual(bodiesAfter(connection), bodies);
  assert.deepEqual(stateOf(connection), state);
  assert.equal(connection.pragma('user_version', { simple: true }), 5);
  assert.equal(connection.prepare('SELECT version FROM oldest_reader').pluck().get(), 5);
  // All deliveries of a content are between its id, which is that of the first, and its last.
  const outside = `SELECT c.id FROM webhook_contents c WHERE
    (c.id, c.last_delivery) IS NOT (SELECT min(d.id), max(d.id) FROM webhook_deliveries d WHERE d.content_id = c.id)`;
  assert.deepEqual(rowsOf(connection, outside), []);
  assert.deepEqual(connection.pragma('integrity_check', { simple: true }), 'ok');
}

function sample(t: TestContext): { readonly path: string; readonly connection: Connection; readonly was: Before } {
  const path = sampleIn(temporaryDirectory(t));
  const connection = connect(path);
  t.after(() => connection.close());
  return { path, connection, was: stand(connection) };
}

function faultsOf(connection: Connection, migrations = withContents): readonly string[] {
  return [...migrating(connection, migrations)].flatMap(({ faults }) => faults);
}

test('a database of the last program before: every delivery has the bytes that it would have sent', (t) => {
  const { connection, was } = sample(t);
  assert.deepEqual(faultsOf(connection), []);
  isMoved(connection, was);
  const digest = (body: string): string => createHash('sha256').update(body).digest('hex').slice(0, 16);
  const sent = [...bodiesAfter(connection).values()].map((body) => body && digest(body));
  assert.deepEqual(sent, sampleBodies);
  const odd = bodiesAfter(connection).get(3) ?? '';
  for (const text of ['"big":12345678901234567890', '"huge":1e400', '"neg":-0.0', 'Ä', '\u{1f4a1}'])
    assert.ok(odd.includes(text));
});

test('a moved file has the tables of a new one', (t) => {
  const { connection } = sample(t);
  migrate(connection, withContents);
  const { connection: fresh } = openRefdataFile(temporaryDirectory(t), withContents);
  t.after(() => fresh.close());
  const tables = (of: Connection) =>
    rowsOf(of, "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name");
  assert.deepEqual(tables(connection), tables(fresh));
});

test('deliveries with the same events, time and filter share their content; nothing is stored twice', (t) => {
  const { connection, was } = sample(t);
  const used = was.bodies.size;
  addDeliveries(connection, 7, 30);
  const more = stand(connection);
  const templates = connection.prepare('SELECT count(*) FROM webhook_forms').pluck().get();
  assert.ok(Number(templates) > 6, 'renamed subscriptions have more than one template');
  migrate(connection, inSmallBatches);
  isMoved(connection, more);
  const contents = rowsOf(connection, 'SELECT content_id, count(*) AS n FROM webhook_deliveries GROUP BY 1');
  assert.equal(contents.filter((row) => (row as { n: number }).n === 30).length, 7);
  assert.ok(contents.length < used + 7);
  assert.deepEqual(
    rowsOf(connection, 'SELECT id FROM webhook_contents EXCEPT SELECT content_id FROM webhook_deliveries'),
    [],
  );
  // ERP and its twin: the same filter by two templates.
  const twins = rowsOf(
    connection,
    `SELECT a.id FROM webhook_deliveries a JOIN webhook_deliveries b USING (content_id)
     WHERE a.subscription_id = 1 AND b.subscription_id = 5`,
  );
  assert.ok(twins.length >= 5);
});

test('a kept body serves all deliveries of its events, also when an earlier one has none', (t) => {
  const { connection } = sample(t);
  connection.exec(`INSERT INTO webhook_deliveries (nonce, subscription_id, form_id, first_event, last_event, events, occurred_at,
      state, attempts, attempts_before, due_run_ms) VALUES
      ('aaaaaaaaaaaaaaaa', 1, 1, 90000, 90000, 1, '2027', 'delivered', 1, 0, 0),
      ('bbbbbbbbbbbbbbbb', 1, 1, 90000, 90000, 1, '2027', 'rejected', 1, 0, 0)`);
  const id = connection.prepare('SELECT max(id) FROM webhook_deliveries').pluck().get() as number;
  const body = `{"deliveryId":"${id}-bbbbbbbbbbbbbbbb","subscriptionName":"ERP","occurredAt":"2027","events":[{"n":1e400}]}`;
  connection.prepare('INSERT INTO webhook_bodies VALUES (?, ?)').run(id, deflateSync(body));
  const { bodies } = stand(connection);
  migrate(connection, withContents);
  const after = bodiesAfter(connection);
  assert.equal(after.get(id), bodies.get(id));
  assert.equal(after.get(id - 1), body.replace(`${id}-bbbbbbbbbbbbbbbb`, `${id - 1}-aaaaaaaaaaaaaaaa`));
});

/** Of version 1, before there were webhooks: migrations.test.ts. */
test('databases of every version before that has deliveries', (t) => {
  for (const version of [2, 3, 4]) {
    const dir = temporaryDirectory(t);
    const { connection } = openRefdataFile(dir, before.slice(0, version));
    t.after(() => connection.close());
    connection.exec("INSERT OR REPLACE INTO progress VALUES (1, 'store', '', 0)");
    connection.exec(
      `INSERT INTO webhook_forms (subscription_id, renderer, name, scopes) VALUES (1, 1, 'ERP', '["PUBLIC"]')`,
    );
    addDeliveries(connection, 12, 2);
    const was = stand(connection);
    migrate(connection, inSmallBatches);
    isMoved(connection, was);
  }
});

test('a fault in one delivery keeps no other: it has no body, and the log names it', (t) => {
  const { connection, was } = sample(t);
  const id = (sql: string): number => Number(connection.prepare(sql).pluck().get());
  const ofForm = `SELECT id FROM webhook_deliveries WHERE state = 'pending' AND form_id = `;
  connection.exec(`UPDATE outbox_events SET body = '{"no envelope' WHERE id = (SELECT max(id) FROM outbox_events);
    INSERT INTO webhook_forms (id, subscription_id, renderer, name, scopes) VALUES (91, 1, 2, 'newer', '["PUBLIC"]'),
      (92, 1, 1, 'damaged', 'no JSON');
    INSERT INTO webhook_deliveries (nonce, subscription_id, form_id, first_event, last_event, events, occurred_at, state,
      attempts, attempts_before, due_run_ms) SELECT '0', 1, value, 5, 6, 1, '2027', 'pending', 0, 0, 0
      FROM json_each('[91, 92, 93]');
    UPDATE webhook_bodies SET body = x'00' WHERE delivery_id = 2`);
  const { bodies } = stand(connection);
  const ours = [91, 92, 93].map((form) => id(`${ofForm}${form}`));
  assert.deepEqual(
    ours.map((one) => bodies.get(one)),
    [null, null, null],
  );
  const faults = faultsOf(connection, inSmallBatches);
  assert.deepEqual(bodiesAfter(connection), bodies);
  const lost = [...was.bodies].filter(([one, body]) => body !== null && bodies.get(one) === null).map(([one]) => one);
  assert.ok(lost.length > 1);
  // A template that is gone is none of the events' faults: its delivery had no body before.
  assert.deepEqual(
    faults.map((fault) => Number(/^\d+/.exec(fault))),
    [...lost, ...ours.slice(0, 2)].toSorted((a, b) => a - b),
  );
});

test('a table whose pages are damaged stops it, and what was moved stays', (t) => {
  const { connection } = sample(t);
  const real = connection.prepare.bind(connection);
  connection.prepare = (sql: string) => {
    if (sql.startsWith('SELECT CASE')) throw Object.assign(new Error('malformed'), { code: 'SQLITE_CORRUPT' });
    return real(sql);
  };
  assert.throws(() => migrate(connection, withContents), /malformed/);
  assert.equal(rowsOf(connection, 'SELECT * FROM webhook_deliveries_4').length, 28);
});

// Kills.

test('killed at any statement, it continues; until it is complete no other program opens the file', (t) => {
  const { path, connection, was } = sample(t);
  const kills = atEachKill(t, path, connection, (killed) => {
    const copy = connect(killed);
    const version = Number(copy.pragma('user_version', { simple: true }));
    const older = (): void => checkReadable(copy, before);
    const newer = (): void => checkReadable(copy, [...before, '', '']);
    if (version === 4) older();
    else
      for (const other of version === 5 ? [older] : [older, newer])
        assert.throws(other, /was written by a newer|has schema version/);
    migrate(copy, inSmallBatches);
    isMoved(copy, was);
    copy.close();
  });
  migrate(connection, inSmallBatches);
  isMoved(connection, was);
  assert.ok(kills() > 20, `${kills()} states of the files`);
});

test('a statement that fails, each in turn: what was there is there, and the next start completes it', (t) => {
  for (let nth = 1, done = false; !done; nth += 7) {
    const { connection, was, path } = sample(t);
    let statements = 0;
    aroundStatements(connection, () => {
      if (++statements === nth) throw new Error('the disk is gone');
    });
    try {
      migrate(connection, inSmallBatches);
      done = true;
    } catch {
      const again = connect(path);
      migrate(again, inSmallBatches);
      isMoved(again, was);
      again.close();
    }
  }
});

test('the program of version 4 leaves a half-moved file as it is', (t) => {
  const dir = temporaryDirectory(t);
  const path = sampleIn(dir);
  const connection = connect(path);
  const steps = migrating(connection, inSmallBatches);
  steps.next();
  connection.close();
  const digest = (): string => createHash('sha256').update(readFileSync(path)).digest('hex');
  const was = digest();
  assert.throws(
    () => openRefdataFile(dir, before),
    (error) => error instanceof LinesideError && error.code === 'INTERNAL' && error.message.includes('1000005'),
  );
  assert.equal(digest(), was);
});

test('the estimate is above what a file grows by, and the write-ahead log stays small', (t) => {
  for (const [transactions, subscriptions, dataBytes] of [
    [1_000, 1, 100],
    [1_000, 1, 2_500],
    [100, 20, 900],
    [40, 1, 100_000],
  ] as const) {
    const { path, connection } = sample(t);
    addDeliveries(connection, transactions, subscriptions, dataBytes);
    connection.pragma('wal_checkpoint(TRUNCATE)');
    const { move } = contentsMigration();
    const { rows, bytes } = move.estimate(connection, () => {});
    assert.equal(rows, 28 + transactions * subscriptions);
    const { growth, wal } = growthBy(withContents, path, connection);
    // Without its fixed part it still is.
    assert.ok(growth <= bytes - 32 * 1024 * 1024, `${growth} of ${bytes}`);
    assert.ok(wal < 24 * 1024 * 1024, `${wal} bytes of write-ahead log`);
  }
});
