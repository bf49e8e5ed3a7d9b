import assert from 'node:assert/strict';
import { existsSync, statSync, unlinkSync } from 'node:fs';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { usOfInstant } from '../../shared/base/instant.ts';
import { author, breakPage, holdStore, openStoreIn, temporaryStore } from './change-store.fixture.ts';
import type { Change, ChangeStore } from './change-store.ts';
import { emitEvent, recordEvent } from './event.fixture.ts';
import { ImportConnection } from './refdata-file.ts';

const yearMs = 365 * 86_400_000;

function refused(store: ChangeStore, expected: string): Promise<void> {
  return assert.rejects(
    store.commit(author, () => 0),
    { code: expected },
  );
}

test('a change, its outbox rows and its audit are one transaction', async (t) => {
  const { store } = temporaryStore(t);
  const rows = store.connection.prepare<[], { id: number; tx_time: string; waiting: number }>(
    'SELECT id, tx_time, waiting FROM outbox',
  );
  const notified: (number | undefined)[] = [];
  store.onCommitted((waiting) => notified.push(waiting));
  const txTime = await store.commit(author, (change) => {
    assert.equal(emitEvent(change, recordEvent('a')), 1);
    assert.equal(change.emit({ ...definition, eventType: 'DefinitionCreated' }), 2);
    change.audit('dictionary.created', 'tools', { rows: 2 });
    return change.stamp.txTime;
  });
  assert.deepEqual(rows.all(), [
    { id: 1, tx_time: txTime, waiting: 1 },
    { id: 2, tx_time: txTime, waiting: 0 },
  ]);
  const fails = store.commit(author, (change) => {
    emitEvent(change, recordEvent('b'));
    change.audit('x', 'y', {});
    throw new RangeError('a rule');
  });
  await assert.rejects(fails, RangeError);
  assert.equal(rows.all().length, 2);
  assert.equal(store.connection.prepare('SELECT count(*) FROM audit').pluck().get(), 1);
  await store.commit(author, (change) => assert.equal(emitEvent(change, recordEvent('b')), 3, 'the id was not used'));
  assert.deepEqual(notified, [1, 1]);
});

const definition = { kind: 'definition', scope: 'PUBLIC', dictionary: 'tools', data: {} } as const;

test('transaction times increase strictly when the clock stands, steps back a year, and after a restart', async (t) => {
  const { store, clock, dir } = temporaryStore(t);
  const times: string[] = [];
  const note = (change: Change): number => times.push(change.stamp.txTime);
  await store.commit(author, note);
  await store.commit(author, note);
  clock.stepWall(-yearMs);
  await store.commit(author, note);
  assert.equal(store.now(), times[2], 'now does not fall behind what is stored');
  await store.close();
  const again = openStoreIn(t, dir, { clock });
  assert.equal(again.now(), times[2]);
  await again.commit(author, (change) => {
    note(change);
    assert.ok(change.stamp.occurredAt < change.stamp.txTime, 'occurredAt is the wall clock');
  });
  clock.stepWall(2 * yearMs);
  await again.commit(author, note);
  assert.deepEqual(times, times.toSorted());
  assert.equal(new Set(times).size, times.length);
  assert.equal(usOfInstant(times[2] ?? '') - usOfInstant(times[1] ?? ''), 1n);
});

test('while an import holds the write slot changes wait in order, reads continue, and the queue is bounded', async (t) => {
  const { store, clock, path } = temporaryStore(t);
  const notified: (number | undefined)[] = [];
  store.onCommitted((waiting) => notified.push(waiting));
  await store.commit(author, (change) => emitEvent(change, recordEvent('first')));
  const order: number[] = [];
  const ended = Promise.withResolvers<void>();
  const held = store.hold(async () => {
    const side = new ImportConnection(path, 1 << 30, clock);
    side.change(author, (change) => {
      emitEvent(change, recordEvent('x'));
      return emitEvent(change, recordEvent('y'));
    });
    assert.equal(store.connection.prepare('SELECT count(*) FROM outbox').pluck().get(), 3);
    assert.throws(
      () => side.change(author, (change) => emitEvent(change, recordEvent('z')) && assert.fail('no')),
      /no/,
    );
    side.close();
    await ended.promise;
    order.push(0);
  });
  const waiting = Array.from({ length: 1_000 }, (_, n) =>
    store.commitShared(author, (change) => order.push(n + 1) && emitEvent(change, recordEvent(`k${n}`))),
  );
  await assert.rejects(
    store.commitShared(author, () => 0),
    { code: 'TOO_MANY' },
  );
  const marked = store.maintain(() => order.push(-1));
  ended.resolve();
  await held;
  const ids = await Promise.all(waiting);
  await marked;
  assert.ok(order.includes(-1));
  assert.deepEqual(
    order.filter((n) => n >= 0),
    Array.from({ length: 1_001 }, (_, n) => n),
  );
  assert.deepEqual([ids[0], ids.at(-1)], [4, 1_003]);
  assert.deepEqual(notified.slice(0, 3), [1, 2, 64], 'as many as share a transaction');
});

test('changes of one turn share a transaction: each has its own time, and one that fails leaves nothing', async (t) => {
  const { store } = temporaryStore(t);
  const notified: (number | undefined)[] = [];
  store.onCommitted((waiting) => notified.push(waiting));
  const change = (key: string, fails = false): Promise<number> =>
    store.commitShared(author, (tx) => {
      const id = emitEvent(tx, recordEvent(key));
      if (fails) throw new TypeError(`no ${key}`);
      return id;
    });
  const done = await Promise.allSettled([change('a'), change('b', true), change('c'), change('d', true), change('e')]);
  assert.deepEqual(
    done.map((one) => (one.status === 'fulfilled' ? one.value : (one.reason as Error).message)),
    [1, 'no b', 2, 'no d', 3],
  );
  assert.deepEqual(notified, [3], 'one transaction');
  const rows = store.connection
    .prepare<[], { id: number; business_key: string; tx_time: string }>('SELECT id, business_key, tx_time FROM outbox')
    .all();
  assert.deepEqual(
    rows.map(({ id, business_key }) => `${id} ${business_key}`),
    ['1 a', '2 c', '3 e'],
  );
  const times = rows.map(({ tx_time }) => tx_time);
  assert.deepEqual([new Set(times).size, times.toSorted()], [3, times]);
});

test('changes that share a transaction are bounded in number and in time, and keep their order', async (t) => {
  const { store, clock } = temporaryStore(t);
  const transactions: (number | undefined)[] = [];
  store.onCommitted((waiting) => transactions.push(waiting));
  const all = (count: number, takesMs: number): Promise<number[]> =>
    Promise.all(
      Array.from({ length: count }, (_, n) =>
        store.commitShared(author, (change) => {
          clock.advance(takesMs);
          return emitEvent(change, recordEvent(`k${n}`));
        }),
      ),
    );
  const ids = await all(150, 0);
  assert.deepEqual(transactions.splice(0), [64, 64, 22]);
  ids.push(...(await all(5, 15)));
  assert.deepEqual(transactions, [2, 2, 1]);
  assert.deepEqual(
    ids,
    ids.map((_, n) => n + 1),
  );
});

test('of changes that share a transaction only the one that has no room is refused', async (t) => {
  const { store } = temporaryStore(t, { maxBytes: 1024 * 1024 });
  const sizes = [1_000, 8_000_000, 1_000];
  const done = await Promise.allSettled(
    sizes.map((size, n) =>
      store.commitShared(author, (tx) => emitEvent(tx, recordEvent(`k${n}`, 1, { data: { text: 'x'.repeat(size) } }))),
    ),
  );
  const codes = done.map((one) => (one.status === 'fulfilled' ? one.value : (one.reason as { code: string }).code));
  assert.deepEqual(codes, [1, 'STORAGE_FULL', 2]);
});

test('if the commit of several changes fails, none of them is answered as kept, and none is there', async (t) => {
  const { store } = temporaryStore(t);
  store.connection.exec(`CREATE TABLE parents (id INTEGER PRIMARY KEY);
    CREATE TABLE children (parent INTEGER REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)`);
  store.connection.pragma('foreign_keys = ON');
  const change = (key: string): Promise<number> => store.commitShared(author, (tx) => emitEvent(tx, recordEvent(key)));
  // SQLite finds the missing parent when the transaction commits.
  const orphan = store.commitShared(author, ({ connection }) => connection.exec('INSERT INTO children VALUES (7)'));
  const done = await Promise.allSettled([change('a'), orphan, change('b')]);
  assert.deepEqual(
    done.map(({ status }) => status),
    ['rejected', 'rejected', 'rejected'],
  );
  assert.equal(store.connection.prepare('SELECT count(*) FROM outbox').pluck().get(), 0);
  assert.equal(await change('c'), 1);
});

test('closing refuses what waits and waits for the import', async (t) => {
  const { store } = temporaryStore(t);
  const release = holdStore(store);
  const late = store.commit(author, () => 0);
  const shared = store.commitShared(author, () => 0);
  const closed = store.close();
  for (const one of [late, shared]) await assert.rejects(one, { code: 'SHUTTING_DOWN' });
  await assert.rejects(
    store.commitShared(author, () => 0),
    { code: 'SHUTTING_DOWN' },
  );
  await refused(store, 'SHUTTING_DOWN');
  assert.equal(store.connection.open, true);
  await Promise.all([release(), closed]);
  assert.equal(store.connection.open, false);
});

test('beyond the budget changes are refused, marks still go, and room made lets changes in again', async (t) => {
  const { store } = temporaryStore(t, { maxBytes: 1 << 20 });
  // In the event, not in the version, which stays.
  const before = { text: 'x'.repeat(50_000) };
  const big = (key: string): Promise<number> =>
    store.commit(author, (change) => emitEvent(change, recordEvent(key, 2, { before })));
  let stored = 0;
  const fill = async (): Promise<void> => {
    for (; stored < 100; stored++) await big(`k${stored}`);
  };
  await assert.rejects(fill(), { code: 'STORAGE_FULL' });
  assert.ok(stored > 5 && stored < 100, `${stored} were stored`);
  assert.match(store.health().full, /outbox\.max_bytes is 1048576/);
  const mark = store.connection.prepare("INSERT INTO outbox_published SELECT id, '2026-01-01' FROM outbox_waiting");
  assert.equal(await store.maintain(() => mark.run().changes), stored);
  const remove = store.connection.prepare('DELETE FROM outbox_events WHERE id <= 10');
  await store.maintain(() => remove.run());
  assert.equal(await big('again'), stored + 1);
  assert.equal(store.health().full, '');
});

test('a single change that would burst the budget is refused whole', async (t) => {
  const { store } = temporaryStore(t, { maxBytes: 1 << 20 });
  const burst = store.commit(author, (change) => {
    for (let n = 0; n < 10_000; n++) emitEvent(change, recordEvent(`k${n}`, 1, { data: { text: 'x'.repeat(2_000) } }));
  });
  await assert.rejects(burst, { code: 'STORAGE_FULL' });
  assert.equal(store.connection.prepare('SELECT count(*) FROM outbox').pluck().get(), 0);
  assert.equal(await store.commit(author, (change) => emitEvent(change, recordEvent('a'))), 1);
});

test('a disk without the required free space refuses changes', async (t) => {
  const { store } = temporaryStore(t, { minFreeBytes: Number.MAX_SAFE_INTEGER });
  await refused(store, 'STORAGE_FULL');
  assert.match(store.health().full, /outbox\.min_free_bytes/);
  assert.equal(await store.maintain(() => 1), 1);
});

test('a lock of another program is STORAGE_FAILED, and a damaged page STORAGE_DAMAGED and remembered', async (t) => {
  const { store, path, dir, clock } = temporaryStore(t);
  const side = new ImportConnection(path, 1 << 30, clock);
  side.connection.exec('BEGIN IMMEDIATE');
  await refused(store, 'STORAGE_FAILED');
  side.connection.exec('ROLLBACK');
  side.close();
  for (let n = 0; n < 50; n++) await store.commit(author, (change) => emitEvent(change, recordEvent(`k${n}`)));
  await store.close();
  breakPage(path, 'outbox_waiting');
  const damaged = openStoreIn(t, dir, { clock });
  const work = damaged.commit(author, (change) => emitEvent(change, recordEvent('late')));
  await assert.rejects(work, { code: 'STORAGE_DAMAGED' });
  assert.match(damaged.health().damage, /damaged/);
});

test('while another program holds the lock only the first change waits for it, until one succeeds again', async (t) => {
  const { store, path, clock } = temporaryStore(t);
  const side = new ImportConnection(path, 1 << 30, clock);
  t.after(() => side.close());
  const change = (): Promise<unknown> => store.commit(author, (one) => emitEvent(one, recordEvent('k')));
  const refused = async (count: number): Promise<number> => {
    const began = performance.now();
    for (let n = 0; n < count; n++) await assert.rejects(change(), { code: 'STORAGE_FAILED' });
    return performance.now() - began;
  };
  for (let round = 0; round < 2; round++) {
    side.connection.exec('BEGIN IMMEDIATE');
    const [first, next] = [await refused(1), await refused(5)];
    assert.ok(next < first, `five changes held the loop for ${next} ms, the first for ${first} ms`);
    assert.equal(store.connection.prepare('SELECT count(*) FROM outbox').pluck().get(), round);
    side.connection.exec('ROLLBACK');
    await change();
  }
});

test('the write-ahead log is checkpointed between commits and stays small', async (t) => {
  const { store, path } = temporaryStore(t);
  for (let n = 0; n < 1_000; n++) {
    await store.commit(author, (change) =>
      emitEvent(change, recordEvent(`k${n}`, 1, { data: { text: 'x'.repeat(8_000) } })),
    );
    if (n % 50 === 0) await new Promise(setImmediate);
  }
  assert.ok(statSync(`${path}-wal`).size < 16 * 1024 * 1024, `${statSync(`${path}-wal`).size} bytes`);
  assert.ok(statSync(path).size > 4 * 1024 * 1024);
});

test('nor does it grow by book-keeping that writes much', async (t) => {
  const { store, path } = temporaryStore(t);
  const keep = store.connection.prepare('INSERT INTO webhook_answers (id, body) VALUES (?, randomblob(1048576))');
  let largest = 0;
  for (let n = 1; n <= 60; n++) {
    await store.maintain(() => void keep.run(n));
    await new Promise(setImmediate);
    largest = Math.max(largest, statSync(`${path}-wal`).size);
  }
  assert.ok(largest < 16 * 1024 * 1024, `${largest} bytes`);
});

test('the newest 100,000 audit records are kept', async (t) => {
  const { store } = temporaryStore(t);
  await store.maintain((audit) => {
    for (let n = 0; n < 100_250; n++) audit('2026-01-01T00:00:00+00:00', 'a', 'b', 'c', {});
  });
  const { low, high } = store.connection
    .prepare<[], { low: number; high: number }>('SELECT min(id) AS low, max(id) AS high FROM audit')
    .get() ?? { low: 0, high: 0 };
  assert.deepEqual([low, high], [201, 100_250]);
});

/** Other losses are found by the same check: src/shared/storage/database-files.test.ts. */
test('refdata.db removed: no change, import or requeue is answered as kept, and what waits can still be marked', async (t) => {
  const { store, path } = temporaryStore(t);
  for (let n = 0; n < 20; n++) await store.commit(author, (change) => emitEvent(change, recordEvent(`k${n}`)));
  store.connection.pragma('wal_checkpoint(PASSIVE)');
  for (const suffix of ['', '-wal', '-shm']) unlinkSync(path + suffix);
  const change = store.commit(author, (one) => emitEvent(one, recordEvent('late')));
  await assert.rejects(change, { code: 'STORAGE_FAILED' });
  assert.match(store.health().damage, /refdata\.db was removed/);
  for (const kept of [() => store.hold(async () => 1), () => store.maintain(() => 1, 'promised')])
    await assert.rejects(kept(), { code: 'STORAGE_FAILED' });
  assert.equal(await store.maintain(() => 1), 1);
  assert.ok(!existsSync(`${path}-wal`), 'no other file gets this write-ahead log');
});

test('refdata.db-wal removed alone: nothing is lost', async (t) => {
  const { store, path } = temporaryStore(t);
  await store.commit(author, (change) => emitEvent(change, recordEvent('a')));
  unlinkSync(`${path}-wal`);
  await store.commit(author, (change) => emitEvent(change, recordEvent('b')));
  const reader = new Database(path, { readonly: true });
  t.after(() => reader.close());
  assert.equal(reader.prepare('SELECT count(*) FROM outbox').pluck().get(), 2);
});

test('a file that holds more than the budget and its reserve refuses changes, and is still written for its own needs', async (t) => {
  const { store, dir, clock } = temporaryStore(t);
  await store.commit(author, (change) => {
    for (let n = 0; n < 10; n++)
      emitEvent(change, recordEvent(`k${n}`, 1, { data: { text: 'x'.repeat(1024 * 1024) } }));
  });
  await store.close();
  // As after the limit was lowered, or after a migration that needed more.
  const again = openStoreIn(t, dir, { clock, maxBytes: 1024 * 1024 });
  await assert.rejects(
    again.commit(author, (change) => emitEvent(change, recordEvent('more'))),
    { code: 'STORAGE_FULL' },
  );
  await again.maintain(() => {
    again.connection.exec('INSERT INTO webhook_answers (body) VALUES (randomblob(2097152))');
  });
});
