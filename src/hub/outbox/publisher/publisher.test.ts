import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { recordingLogger } from '../../../shared/base/logger.fixture.ts';

import { author, breakPage, openStoreIn, temporaryStore } from '../change-store.fixture.ts';
import type { ChangeStore } from '../change-store.ts';
import { emitEvent, recordEvent } from '../event.fixture.ts';
import { change, changeAtOnce, FakeBroker, keys, publisherOn, rigFor, settles, turns } from './publisher.fixture.ts';

interface OutboxRow {
  readonly id: number;
  readonly waiting: number;
  readonly attempts: number;
  readonly last_error: string;
  readonly published_at: string | null;
}

function rowsOf(store: ChangeStore): OutboxRow[] {
  return store.connection
    .prepare<[], OutboxRow>('SELECT id, waiting, attempts, last_error, published_at FROM outbox ORDER BY id')
    .all();
}

function waitingIn(store: ChangeStore): number {
  return rowsOf(store).filter(({ waiting }) => waiting === 1).length;
}

function idsOf(broker: FakeBroker): number[] {
  return broker.arrived.map(({ id }) => id).toSorted((a, b) => a - b);
}

describe('the publisher', () => {
  test('sends what is committed, with key, topic and headers, and marks it when it is acknowledged', async (t) => {
    const { store, broker, publisher, clock } = rigFor(t);
    publisher.start();
    await store.commit(author, (tx) => {
      emitEvent(tx, recordEvent('ключ:1', 1, { scope: 'INTERNAL' }));
      tx.emit({ kind: 'definition', eventType: 'DefinitionCreated', scope: 'PUBLIC', dictionary: 'tools', data: {} });
    });
    await settles('published', clock, () => publisher.status().publishedTotal === 1);
    const [message] = broker.arrived;
    assert.ok(message);
    const { value, ...rest } = message;
    assert.deepEqual(rest, {
      id: 1,
      topic: 'refdata.internal',
      key: 'tools:ключ:1',
      headers: { 'device-id': 'box-1', 'event-id': `${store.storeId}-1`, 'content-type': 'application/json' },
    });
    assert.equal(JSON.parse(String(value)).businessKey, 'ключ:1');
    assert.equal(broker.arrived.length, 1, 'definitions go to no topic');
    const [row] = rowsOf(store);
    assert.deepEqual([row?.waiting, row?.attempts], [0, 0]);
    assert.match(row?.published_at ?? '', /^2023-11-14T/);
    assert.equal(publisher.status().waiting, 0);
  });

  test('a row that was acknowledged but not marked is sent again by the next process, with the same event id', async (t) => {
    const { store, broker, publisher, dir, clock } = rigFor(t);
    broker.answer = () => 'silent';
    publisher.start();
    await change(store, ['a']);
    await turns();
    assert.equal(broker.arrived.length, 1);
    await store.close();
    const again = openStoreIn(t, dir, { clock });
    const next = new FakeBroker();
    const nextPublisher = publisherOn(again, next, clock);
    assert.equal(nextPublisher.status().waiting, 1);
    nextPublisher.start();
    await settles('published', clock, () => next.arrived.length === 1);
    assert.deepEqual(next.arrived[0]?.headers, broker.arrived[0]?.headers);
    await nextPublisher.stop(1_000);
  });

  test('a change while offline does not even ask the broker twice', async (t) => {
    const { store, broker, publisher } = rigFor(t);
    broker.connected = false;
    publisher.start();
    for (let n = 0; n < 50; n++) {
      await change(store, [`k${n}`]);
      await turns();
    }
    assert.equal(broker.offers, 1);
  });

  test('a broker that is full is offered more when it has room', async (t) => {
    const { store, broker, publisher, clock } = rigFor(t);
    broker.capacity = 7;
    await changeAtOnce(
      store,
      Array.from({ length: 300 }, (_, n) => `k${n % 40}`),
    );
    publisher.start();
    await settles('all published', clock, () => publisher.status().waiting === 0);
    assert.equal(broker.mostOutstanding, 7);
    assert.equal(broker.arrived.length, 300);
  });

  test('with many rows in flight acknowledgements are collected before they are stored', async (t) => {
    const { store, broker, publisher, clock } = rigFor(t);
    broker.answer = ({ key }) => (key.includes('silent') ? 'silent' : 'acknowledge');
    publisher.start();
    await changeAtOnce(store, keys(1_000, 'silent-'));
    await settles('in flight', clock, () => publisher.status().inFlight === 1_000);
    await change(store, ['first']);
    await turns();
    assert.equal(publisher.status().publishedTotal, 1, 'the first one at once');
    await change(store, ['second', 'third']);
    await turns();
    assert.equal(publisher.status().publishedTotal, 1);
    clock.advance(20);
    await turns();
    assert.equal(publisher.status().publishedTotal, 3);
    await publisher.stop(0);
  });

  test('acknowledgements that cannot be stored are kept: their rows are not sent again, nor their keys', async (t) => {
    const { store, broker, publisher, clock } = rigFor(t);
    publisher.start();
    store.connection.exec(
      'CREATE TEMP TRIGGER full BEFORE DELETE ON outbox_waiting BEGIN SELECT RAISE(ABORT, "disk full"); END',
    );
    await change(store, ['a', 'a', 'b']);
    for (let n = 0; n < 10; n++) {
      clock.advance(1_000);
      await turns();
    }
    assert.deepEqual(idsOf(broker), [1, 3]);
    assert.equal(waitingIn(store), 3);
    store.connection.exec('DROP TRIGGER full');
    await settles('all published', clock, () => publisher.status().waiting === 0);
    assert.deepEqual(idsOf(broker), [1, 2, 3]);
  });

  test('stopping offers nothing more, waits for the rows in flight and writes the acknowledged ones', async (t) => {
    const { store, broker, publisher } = rigFor(t);
    await changeAtOnce(store, keys(3_000));
    publisher.start();
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    await publisher.stop(1_000);
    assert.ok(broker.acknowledged.size > 0);
    const published = rowsOf(store).filter(({ published_at }) => published_at !== null);
    assert.deepEqual(new Set(published.map(({ id }) => id)), broker.acknowledged);
    const offers = broker.offers;
    await change(store, ['late']);
    await turns();
    assert.equal(broker.offers, offers);
  });

  test('rows that an import brought in are counted and sent', async (t) => {
    const { store, publisher, path, clock } = rigFor(t);
    publisher.start();
    await store.hold(async () => {
      const { ImportConnection } = await import('../refdata-file.ts');
      const side = new ImportConnection(path, 1 << 30, clock);
      side.change(author, (tx) => {
        for (let n = 0; n < 200; n++) emitEvent(tx, recordEvent(`k${n}`));
      });
      side.close();
    });
    assert.equal(publisher.status().waiting, 200);
    await settles('all published', clock, () => publisher.status().waiting === 0);
    assert.equal(publisher.status().publishedTotal, 200);
  });

  test('published rows go after the days they are kept, dead letters and waiting rows stay', async (t) => {
    const { store, broker, publisher, clock } = rigFor(t);
    broker.answer = ({ id }) => (id === 5 ? 'refuse for ever' : id === 9 ? 'refuse' : 'acknowledge');
    publisher.start();
    await store.commit(author, (tx) => {
      for (let n = 0; n < 3_500; n++) emitEvent(tx, recordEvent(`k${n}`));
      tx.emit({ kind: 'definition', eventType: 'DefinitionCreated', scope: 'PUBLIC', dictionary: 'tools', data: {} });
    });
    await settles('published', clock, () => publisher.status().publishedTotal === 3_498);
    clock.advance(6 * 86_400_000);
    await turns();
    assert.equal(rowsOf(store).length, 3_501);
    clock.stepWall(2 * 86_400_000);
    for (let sweep = 0; sweep < 8; sweep++) {
      clock.advance(3_600_000);
      await turns();
    }
    assert.deepEqual(
      rowsOf(store).map(({ id, waiting }) => [id, waiting]),
      [
        [5, 0],
        [9, 1],
      ],
    );
  });
});

test('the publisher is alive while it turns, and after its stop; one whose timer never comes again is not', async (t) => {
  const { store, broker, publisher, clock } = rigFor(t);
  publisher.start();
  broker.answer = () => 'silent';
  await change(store, ['a', 'b']);
  for (let s = 0; s < 120; s++) {
    clock.advance(1_000);
    await turns();
    publisher.assertAlive();
  }
  const lost = t.mock.method(clock, 'timer', () => ({ cancel() {} }));
  clock.advance(1_000);
  await turns();
  clock.advance(30_000);
  publisher.assertAlive();
  clock.advance(2_000);
  await turns();
  assert.throws(() => publisher.assertAlive(), /it has not turned for 32 s/);
  lost.mock.restore();
  await publisher.stop(0);
  publisher.assertAlive();
});

test('10,000 waiting rows of few keys, many keys and one key take no memory by the row', async (t) => {
  for (const [name, keyOf] of [
    ['one blocked key', (n: number) => (n % 2 === 0 ? 'bad' : `k${n}`)],
    ['50 keys', (n: number) => `k${n % 50}`],
  ] as const) {
    const { store, broker, publisher, clock } = rigFor(t, { limits: { ids: 4_000, idsOfKey: 400 } });
    await store.commit(author, (tx) => {
      for (let n = 0; n < 10_000; n++) emitEvent(tx, recordEvent(keyOf(n)));
    });
    broker.answer = ({ key }) => (key === 'tools:bad' ? 'refuse' : 'acknowledge');
    let most = 0;
    const goal = name === '50 keys' ? 0 : 5_000;
    publisher.start();
    const since = performance.now();
    await settles(name, clock, () => {
      most = Math.max(most, publisher.inMemory);
      return publisher.status().waiting <= goal;
    });
    t.diagnostic(`${name}: ${Math.round(performance.now() - since)} ms, at most ${most} rows and keys in memory`);
    assert.ok(most <= 6_000, `${most} in memory`);
    await publisher.stop(0);
    await store.close();
  }
});

/** Duplicates are allowed; going back is not. */
function assertOrder(broker: FakeBroker): void {
  const last = new Map<string, number>();
  for (const { id, topic, key } of broker.arrived) {
    const before = last.get(`${topic} ${key}`) ?? 0;
    assert.ok(id >= before, `${key}: ${id} came after ${before}`);
    last.set(`${topic} ${key}`, id);
  }
}

const answers = ['acknowledge', 'refuse', 'time out', 'lost', 'refuse for ever', 'silent'] as const;
const allKeys = ['a', 'b', 'c', 'd', 'e', 'f'];
const some = fc.array(fc.constantFrom(...allKeys), { minLength: 1, maxLength: 12 });
const script = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: fc.record({ keys: some, scope: fc.constantFrom('PUBLIC', 'INTERNAL') }) },
    { weight: 4, arbitrary: fc.record({ turns: fc.integer({ min: 1, max: 6 }) }) },
    {
      weight: 3,
      arbitrary: fc.record({ answers: fc.array(fc.constantFrom(...answers), { minLength: 1, maxLength: 5 }) }),
    },
    { weight: 1, arbitrary: fc.record({ connected: fc.boolean() }) },
    { weight: 1, arbitrary: fc.record({ unreached: fc.constant(true) }) },
    { weight: 1, arbitrary: fc.record({ stuck: fc.subarray(allKeys) }) },
    { weight: 2, arbitrary: fc.record({ advanceMs: fc.constantFrom(1_000, 2_000, 61_000) }) },
    { weight: 1, arbitrary: fc.record({ kill: fc.constant(true) }) },
  ),
  { maxLength: 60, size: 'max' },
);
const fewLimits = fc.record({
  keys: fc.constantFrom(4, 100),
  ids: fc.constantFrom(3, 100),
  idsOfKey: fc.constantFrom(2, 100),
  blockedKeys: fc.constantFrom(2, 100),
});

test('whatever the broker does and whenever the process is killed, nothing is lost, marked early or out of order', async (t) => {
  await fc.assert(
    fc.asyncProperty(fewLimits, script, async (limits, steps) => {
      const changes = { maxAttempts: 3, limits };
      let { store, broker, publisher, dir, clock } = rigFor(t, changes);
      const brokers = [broker];
      let stuck: readonly string[] = [];
      const answerBy = (given: readonly (typeof answers)[number][]): void => {
        broker.answer = ({ id, key }) =>
          stuck.includes(key.slice('tools:'.length)) ? 'time out' : (given[id % given.length] ?? 'acknowledge');
      };
      const restart = async (): Promise<void> => {
        // Nothing of the old process is written any more: as after a kill.
        await store.close();
        store = openStoreIn(t, dir, { clock });
        broker = new FakeBroker();
        brokers.push(broker);
        publisher = publisherOn(store, broker, clock, changes);
        publisher.start();
      };
      const add = (keys: readonly string[], scope: string): Promise<void> =>
        store.commit(author, (tx) => {
          for (const key of keys)
            emitEvent(tx, recordEvent(key, 1, { scope: scope === 'PUBLIC' ? 'PUBLIC' : 'INTERNAL' }));
        });
      publisher.start();
      for (const step of steps) {
        if ('keys' in step) await add(step.keys, step.scope);
        else if ('turns' in step) for (let n = 0; n < step.turns; n++) await new Promise(setImmediate);
        else if ('answers' in step) answerBy(step.answers);
        else if ('connected' in step) broker.connected = step.connected;
        else if ('unreached' in step) broker.settle({ kind: 'unreached', reason: 'timed out' });
        else if ('stuck' in step) stuck = step.stuck;
        else if ('advanceMs' in step) clock.advance(step.advanceMs);
        else await restart();
        assert.ok(publisher.inMemory <= 3 * limits.keys + limits.ids + 1_000);
      }
      broker.connected = true;
      answerBy(['acknowledge']);
      broker.settle({ kind: 'unreached', reason: 'timed out' });
      const waits = store.connection
        .prepare<[string], number>(
          'SELECT count(*) FROM outbox WHERE waiting AND business_key NOT IN (SELECT value FROM json_each(?))',
        )
        .pluck();
      await settles('those that may go', clock, () => waits.get(JSON.stringify(stuck)) === 0);
      stuck = [];
      await settles('all settled', clock, () => publisher.status().waiting === 0);
      const acknowledged = new Set(brokers.flatMap((each) => [...each.acknowledged]));
      const dead = new Set(store.connection.prepare<[], number>('SELECT outbox_id FROM dead_letters').pluck().all());
      for (const { id, published_at } of rowsOf(store)) {
        assert.equal(published_at !== null, !dead.has(id), `${id} is published or dead`);
        if (published_at !== null) assert.ok(acknowledged.has(id), `${id} was marked and never acknowledged`);
      }
      const all = new FakeBroker();
      all.arrived.push(...brokers.flatMap((each) => each.arrived));
      assertOrder(all);
      await turns();
      assert.equal(publisher.inMemory, 0);
      assert.equal(store.connection.prepare('SELECT count(*) FROM outbox_deferred').pluck().get(), 0);
      await publisher.stop(0);
      await store.close();
    }),
    { numRuns: 60 },
  );
});

test('without a broker events wait beyond outbox.max_bytes: the oldest are pruned, counted and audited, no change is refused', async (t) => {
  const at = temporaryStore(t, { maxBytes: 2 << 20 });
  const { store, clock } = at;
  let keepAbove = Number.MAX_SAFE_INTEGER;
  const publisher = publisherOn(store, undefined, clock, { keepAbove: () => keepAbove });
  // In the events, not in the versions, which stay.
  const before = { text: 'x'.repeat(2_000) };
  const put = async (n: number): Promise<number> =>
    store.commit(author, (tx) => emitEvent(tx, recordEvent(`k${n}`, 2, { before })));
  for (let n = 0; n < 500; n++) await put(n);
  const bury = "DELETE FROM outbox_waiting WHERE id = 3; INSERT INTO dead_letters VALUES (3, '', 1, '')";
  await store.maintain(() => store.connection.exec(bury));
  for (let n = 500; n < 3_000; n++) await put(n);
  const { full, usedBytes } = store.health();
  assert.equal(full, '');
  assert.ok(usedBytes < 3 << 20, String(usedBytes));
  const { prunedTotal } = publisher.status();
  assert.ok(prunedTotal > 500);
  const left = rowsOf(store).filter((row) => row.waiting === 1);
  assert.deepEqual([left.length, left.at(-1)?.id], [3_000 - (left[0]?.id ?? 0) + 1, 3_000], 'the newest stay');
  const audited = store.connection.prepare(
    "SELECT sum(details ->> 'waited') FROM audit WHERE action = 'outbox.pruned'",
  );
  assert.equal(audited.pluck().get(), prunedTotal);
  assert.equal(rowsOf(store)[0]?.id, 3, 'a dead letter stays');

  // A subscriber that needs them comes first.
  keepAbove = 0;
  const fill = async (): Promise<void> => {
    for (let n = 0; n < 1_500; n++) await put(n);
  };
  await assert.rejects(fill(), { code: 'STORAGE_FULL' });
  assert.match(store.health().full, /outbox\.max_bytes/);
  keepAbove = Number.MAX_SAFE_INTEGER;
  await put(0);
  assert.equal(store.health().full, '');
  // What waits is published when there is a broker.
  const broker = new FakeBroker();
  const later = publisherOn(store, broker, clock);
  later.start();
  await settles('published', clock, () => broker.arrived.length > 0);
  await later.stop(0);
});

test('rows that a failed transaction would have pruned are not counted', async (t) => {
  const { store, clock } = temporaryStore(t, { maxBytes: 2 << 20 });
  const publisher = publisherOn(store, undefined, clock);
  const data = { text: 'x'.repeat(2_000) };
  await store.maintain(() =>
    store.connection.exec("CREATE TRIGGER no_audit BEFORE INSERT ON audit BEGIN SELECT raise(ABORT, 'no'); END"),
  );
  await assert.rejects(async () => {
    for (let n = 0; n < 3_000; n++)
      await store.commit(author, (tx) => emitEvent(tx, recordEvent(`k${n}`, 1, { data })));
  }, /no/);
  const { waiting, prunedTotal } = publisher.status();
  assert.deepEqual([waiting, prunedTotal], [rowsOf(store).filter((row) => row.waiting === 1).length, 0]);
});

test('a refusal that cannot be stored is kept: its row is not sent again meanwhile, others are', async (t) => {
  const { store, broker, publisher, clock } = rigFor(t);
  broker.answer = ({ key }) => (key === 'tools:a' ? 'refuse' : 'acknowledge');
  publisher.start();
  const broken = 'BEGIN SELECT RAISE(ABORT, "disk full"); END';
  store.connection.exec(`CREATE TEMP TRIGGER full BEFORE INSERT ON outbox_deferred ${broken}`);
  await change(store, ['a', 'a']);
  for (let minute = 0; minute < 200; minute++) {
    clock.advance(60_000);
    await turns();
  }
  assert.equal(publisher.status().refusedTotal, 1);
  await change(store, ['b']);
  await turns();
  assert.deepEqual(broker.taken, [1, 3]);
  store.connection.exec('DROP TRIGGER full');
  broker.answer = () => 'acknowledge';
  await settles('all published', clock, () => publisher.status().waiting === 0);
  assert.deepEqual(broker.taken, [1, 3, 1, 2]);
});

test('a file that cannot be read is logged once, and its damage is known to the store', async (t) => {
  const { store, clock, dir, path } = rigFor(t);
  await change(store, keys(200));
  await store.close();
  breakPage(path, 'outbox_events');
  const again = openStoreIn(t, dir, { clock });
  const { logger, lines } = recordingLogger();
  const publisher = publisherOn(again, new FakeBroker(), clock, { logger });
  publisher.start();
  for (let n = 0; n < 10; n++) {
    clock.advance(1_000);
    await turns();
  }
  assert.match(again.health().damage, /damaged/);
  assert.equal(lines.filter((line) => line.includes('could not be read')).length, 1, lines.join(''));
  await publisher.stop(0);
});

test('an event whose version is lost is named, and nothing behind it is sent', async (t) => {
  const { store, broker, publisher, clock } = rigFor(t);
  await change(store, ['a', 'b', 'c']);
  store.connection.exec('PRAGMA foreign_keys = OFF; DELETE FROM record_versions WHERE id = 2');
  publisher.start();
  clock.advance(1_000);
  await turns();
  assert.deepEqual(broker.taken, []);
  assert.match(store.health().damage, /lost the version of outbox event 2/);
});

test('thousands of rows that are to be sent again do not hold the loop: some hundreds go in a turn', async (t) => {
  const { store, broker, publisher, clock } = rigFor(t);
  broker.answer = () => 'never';
  publisher.start();
  const names = keys(3_000);
  await changeAtOnce(store, names);
  await settles('all in flight', clock, () => broker.outstanding === 3_000);
  broker.connected = false;
  broker.settle({ kind: 'unreached', reason: 'timed out' });
  assert.equal(publisher.status().unreachedTotal, 3_000);
  await turns();
  broker.answer = () => 'acknowledge';
  broker.connected = true;
  let most = 0;
  for (let before = broker.offers; broker.acknowledged.size < 3_000; before = broker.offers) {
    await new Promise(setImmediate);
    most = Math.max(most, broker.offers - before);
  }
  assert.ok(most > 0 && most <= 500, `${most} in a turn`);
  await settles('published', clock, () => publisher.status().waiting === 0);
  await store.commit(author, (tx) => emitEvent(tx, recordEvent('k1', 2)));
});
