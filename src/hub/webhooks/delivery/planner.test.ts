import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LinesideError } from '../../../shared/base/errors.ts';
import { settled } from '../../../shared/base/fake-clock.fixture.ts';
import { author, holdStore } from '../../outbox/change-store.fixture.ts';
import type { ChangeStore } from '../../outbox/change-store.ts';
import { emitEvent, recordEvent, type WholeRecordEvent } from '../../outbox/event.fixture.ts';
import type { DefinitionEvent } from '../../outbox/event.ts';
import { ImportConnection } from '../../outbox/refdata-file.ts';
import { Progress } from '../progress.ts';
import { DeliveryRows } from './delivery-rows.ts';
import { deliveriesIn, emit, emitEach, plannerOn, plannerRig, sentIn, turnsUntil } from './planner.fixture.ts';

const minuteMs = 60_000;

function storedCursor(store: ChangeStore): number {
  return new Progress(store.connection).cursor();
}

test('each transaction is one delivery for each subscription that takes something of it', async (t) => {
  const { store, clock, cache, planner } = plannerRig(t, {});
  cache.put(2, { scopes: ['INTERNAL'] });
  await emit(store, recordEvent('a'), recordEvent('b', 1, { scope: 'INTERNAL' }), recordEvent('c'));
  await emit(store, recordEvent('d'));
  clock.advance(5_000);
  await planner.caughtUp();
  assert.deepEqual(sentIn(store), ['1: a b c', '2: b', '1: d']);
  const [first] = deliveriesIn(store);
  assert.deepEqual(first, {
    id: 1,
    nonce: '0000000000000001',
    subscriptionId: 1,
    subscriptionName: 'subscription 1',
    contentId: 1,
    occurredAt: store.now(),
    scopes: '["PUBLIC","INTERNAL"]',
    events: 3,
    state: 'pending',
    attempts: 0,
    attemptsBefore: 0,
    dueRunMs: 5_000,
  });
  assert.equal(planner.cursor(), 4);
  assert.equal(storedCursor(store), 4);
  assert.equal(new Progress(store.connection).running().runMs, 5_000);
});

test('wakes on a commit, plans a burst in one transaction, and reports their subscriptions', async (t) => {
  const { store, clock, cache, planner } = plannerRig(t, {});
  cache.put(7);
  planner.start();
  await clock.pass(0);
  const notified: string[] = [];
  planner.onPlanned((ids) => notified.push([...ids].join(' ')));
  await emitEach(store, ['a', 'b', 'c']);
  await clock.pass(19);
  assert.deepEqual([notified, planner.unplanned()], [[], 3]);
  clock.advance(1);
  await turnsUntil('planned', () => notified.length > 0);
  assert.deepEqual([notified, planner.unplanned(), planner.plannedTotal()], [['1 7'], 0, 6]);
});

test('polls each second without a wake-up', async (t) => {
  const { store, clock, planner, path } = plannerRig(t, {});
  planner.start();
  await clock.pass(0);
  const other = new ImportConnection(path, 1e9, clock);
  other.change(author, (tx) => emitEvent(tx, recordEvent('unheard of')));
  other.close();
  clock.advance(1_000);
  await turnsUntil('planned', () => planner.cursor() === 1);
  assert.deepEqual(sentIn(store), ['1: unheard of']);
});

const definition: DefinitionEvent = {
  kind: 'definition',
  eventType: 'DefinitionUpdated',
  scope: 'PUBLIC',
  dictionary: 'tools',
  data: { name: 'tools' },
};

test('a transaction that takes many slices is split at 500 events, those of each subscription', async (t) => {
  const { store, clock, cache, planner } = plannerRig(t, {});
  cache.put(2, { dictionaries: ['every hundredth'] });
  cache.put(3, { dictionaries: ['every hundredth', 'every third'] });
  const events = Array.from({ length: 50_000 }, (_, n): WholeRecordEvent => {
    const dictionary = n % 100 === 0 ? 'every hundredth' : n % 3 === 0 ? 'every third' : 'tools';
    return recordEvent(`k${n}`, 1, { dictionary, eventType: 'dictionary.bulk_imported' });
  });
  await emit(store, recordEvent('first'), recordEvent('of two'));
  await emit(store, ...events);
  await emit(store, recordEvent('last'));
  planner.start();
  clock.advance(0);
  await turnsUntil('planned', () => planner.unplanned() === 0);

  const all = sentIn(store);
  const of = (id: number): string[] => all.filter((sent) => sent.startsWith(`${id}: `)).map((sent) => sent.slice(3));
  const expected = (takes: (event: WholeRecordEvent) => boolean): string[] => {
    const keys = events.filter(takes).map(({ businessKey }) => businessKey);
    const chunks = Array.from({ length: Math.ceil(keys.length / 500) }, (_, n) => keys.slice(n * 500, n * 500 + 500));
    return chunks.map((chunk) => chunk.join(' '));
  };
  assert.deepEqual(of(1), ['first of two', ...expected(() => true), 'last']);
  assert.deepEqual(
    of(2),
    expected(({ dictionary }) => dictionary === 'every hundredth'),
  );
  assert.deepEqual(
    of(3),
    expected(({ dictionary }) => dictionary !== 'tools'),
  );
  assert.equal(planner.plannedTotal(), 2 + 100 + 1 + 34);
});

test('a delivery is split before its body is more than a mebibyte; a larger event goes alone', async (t) => {
  const { store, planner } = plannerRig(t, { name: '"'.repeat(128) });
  const data = { text: 'x'.repeat(340_000) };
  const step = (name: string, text = data.text): DefinitionEvent => ({ ...definition, data: { name, text } });
  await emit(store, step('a'), step('b'), step('c'), step('d'), step('e', 'y'.repeat(1_200_000)), step('f'));
  await planner.caughtUp();
  assert.deepEqual(
    deliveriesIn(store).map(({ events }) => events),
    [3, 1, 1, 1],
  );
  const rows = new DeliveryRows(store.connection);
  const sizes = deliveriesIn(store).map((delivery) => {
    const body = rows.bodyOf(delivery);
    return 'unavailable' in body ? 0 : body.length;
  });
  assert.deepEqual(
    sizes.map((size) => size > 0 && size <= 1024 * 1024),
    [true, true, false, true],
  );
});

test('subscriptions that take the same events of a transaction share their contents', async (t) => {
  const { store, cache, planner } = plannerRig(t);
  for (let id = 1; id <= 3; id++) cache.put(id);
  cache.put(4, { dictionaries: ['parts'] });
  const parts = { dictionary: 'parts' };
  await emit(store, recordEvent('a'), recordEvent('b', 1, parts));
  await emit(store, recordEvent('b', 2, parts));
  await planner.caughtUp();
  assert.deepEqual(sentIn(store), ['1: a b', '2: a b', '3: a b', '4: b', '1: b', '2: b', '3: b', '4: b']);
  const contents = deliveriesIn(store).map(({ contentId }) => contentId);
  assert.deepEqual(contents, [1, 1, 1, 4, 5, 5, 5, 5]);
  const ends = store.connection.prepare('SELECT last_delivery FROM webhook_contents ORDER BY id').pluck().all();
  assert.deepEqual(ends, [3, 4, 8]);
});

test('a transaction of more deliveries than a commit takes is planned in several, whole events each', async (t) => {
  const { store, cache, planner } = plannerRig(t);
  for (let id = 1; id <= 120; id++) cache.put(id);
  cache.put(121, { dictionaries: ['parts'] });
  await emit(
    store,
    ...Array.from({ length: 20_000 }, (_, n) => recordEvent(`k${n}`, 1, n % 100 === 0 ? { dictionary: 'parts' } : {})),
  );
  const commits: number[] = [];
  planner.onPlanned(() => commits.push(planner.cursor()));
  await planner.caughtUp();
  // 34 x 120 deliveries of 500 events; 121 has what is left when each of the two commits is made.
  assert.deepEqual(commits, [17_000, 20_000]);
  const of = (id: number): number[] =>
    deliveriesIn(store).flatMap(({ subscriptionId, events }) => (subscriptionId === id ? [events] : []));
  assert.deepEqual(
    of(1),
    Array.from({ length: 40 }, () => 500),
  );
  assert.deepEqual(of(121), [170, 30]);
});

test('an id is never used again, also when the newest deliveries are gone', async (t) => {
  const { store, planner } = plannerRig(t, {});
  await emitEach(store, ['a', 'b']);
  await planner.caughtUp();
  await store.maintain(() => store.connection.exec('DELETE FROM webhook_deliveries; DELETE FROM webhook_contents'));
  await emitEach(store, ['c']);
  await planner.caughtUp();
  assert.deepEqual(
    deliveriesIn(store).map(({ id }) => id),
    [3],
  );
});

test('an event whose version is lost, or whose stored text is damaged, has no delivery, and the others are planned', async (t) => {
  const { store, planner } = plannerRig(t, {});
  await emitEach(store, ['a', 'b', 'c', 'd', 'e']);
  store.connection.exec(`PRAGMA foreign_keys = OFF; DELETE FROM record_versions WHERE id = 2;
    UPDATE outbox_events SET version_id = NULL, body = '{"schemaVersion":"1' WHERE id = 4`);
  await planner.caughtUp();
  assert.deepEqual(sentIn(store), ['1: a', '1: gone', '1: c', '1: gone', '1: e']);
});

test('with no subscription nothing is written, and the cursor is there when one comes', async (t) => {
  const { store, clock, cache, planner } = plannerRig(t);
  const begun = store.connection.prepare('SELECT total_changes()').pluck();
  planner.start();
  await emitEach(store, ['a', 'b']);
  const before = begun.get();
  clock.advance(11 * minuteMs);
  await turnsUntil('passed over', () => planner.cursor() === 2);
  await clock.pass(11 * minuteMs);
  assert.equal(begun.get(), before);
  cache.put(1, { afterEvent: 2 });
  await emitEach(store, ['c']);
  clock.advance(1_000);
  await turnsUntil('planned', () => planner.cursor() === 3);
  assert.deepEqual(sentIn(store), ['1: c']);
});

test('a cursor that passes events without recipients is stored after 1,000 events, or 10 minutes', async (t) => {
  const { store, clock, planner } = plannerRig(t, { dictionaries: ['other'] });
  planner.start();
  await clock.pass(0);
  await emit(store, ...Array.from({ length: 999 }, (_, n) => recordEvent(`k${n}`)));
  clock.advance(20);
  await turnsUntil('passed over', () => planner.cursor() === 999);
  await settled();
  assert.equal(storedCursor(store), 0);
  await emitEach(store, ['one more']);
  clock.advance(20);
  await turnsUntil('stored', () => storedCursor(store) === 1_000);
  await emitEach(store, ['and one']);
  clock.advance(1_000);
  await turnsUntil('passed over', () => planner.cursor() === 1_001);
  await clock.pass(9 * minuteMs);
  assert.equal(storedCursor(store), 1_000);
  for (let n = 0; n < 3; n++) {
    await clock.pass(minuteMs);
  }
  assert.equal(storedCursor(store), 1_001);
});

test('a cursor that a change of a subscription has stored is not stored again', async (t) => {
  const { store, clock, planner } = plannerRig(t, { dictionaries: ['other'] });
  const changes = store.connection.prepare('SELECT total_changes()').pluck();
  planner.start();
  await emitEach(store, ['a']);
  clock.advance(1_000);
  await turnsUntil('passed over', () => planner.cursor() === 1);
  new Progress(store.connection).saveCursor(planner.cursor());
  const before = changes.get();
  for (let n = 0; n < 12; n++) await clock.pass(minuteMs);
  assert.equal(changes.get(), before);
});

test('a stop stores the cursor and the running time; what is committed later is planned by the next one', async (t) => {
  const { store, clock, cache, planner } = plannerRig(t, { dictionaries: ['other'] });
  planner.start();
  await emitEach(store, ['a', 'b']);
  clock.advance(1_000);
  await turnsUntil('passed over', () => planner.cursor() === 2);
  clock.advance(500);
  await planner.stop();
  assert.deepEqual([storedCursor(store), new Progress(store.connection).running().runMs], [2, 1_500]);
  await emit(store, recordEvent('c', 1, { dictionary: 'other' }));
  await clock.pass(10_000);
  assert.deepEqual([sentIn(store), clock.pendingTimers], [[], 0]);
  await assert.rejects(planner.caughtUp(), (error) => error instanceof LinesideError && error.code === 'SHUTTING_DOWN');
  await plannerOn(store, cache, clock).caughtUp();
  assert.deepEqual(sentIn(store), ['1: c']);
});

test('while an import holds the file planning waits, and then plans what it brought', async (t) => {
  const { store, clock, planner, path } = plannerRig(t, {});
  planner.start();
  await emitEach(store, ['a']);
  const end = Promise.withResolvers<void>();
  const held = store.hold(async () => {
    const connection = new ImportConnection(path, 1e9, clock);
    connection.change(author, (tx) => {
      emitEvent(tx, recordEvent('imported'));
      emitEvent(tx, recordEvent('with it'));
    });
    connection.close();
    await end.promise;
  });
  clock.advance(1_000);
  const caughtUp = planner.caughtUp();
  await settled();
  assert.equal(planner.cursor(), 0);
  end.resolve();
  await held;
  await caughtUp;
  assert.deepEqual(sentIn(store), ['1: a', '1: imported with it']);
});

test('subscriptions that change while a commit waits: the events are planned for those there are then', async (t) => {
  const { store, cache, planner } = plannerRig(t, {});
  const other = cache.put(2);
  cache.remove(2);
  await emitEach(store, ['a', 'b']);
  const release = holdStore(store);
  const caughtUp = planner.caughtUp();
  await settled();
  cache.remove(1);
  cache.put(2, other);
  await release();
  await caughtUp;
  assert.deepEqual(sentIn(store), ['2: a', '2: b']);
});

test('removed events without recipients do not stop the planner', async (t) => {
  const { store, planner } = plannerRig(t, { dictionaries: ['other'] });
  await emitEach(store, ['a', 'b', 'c']);
  await store.maintain(() => store.connection.exec('DELETE FROM outbox_events WHERE id > 1'));
  await planner.caughtUp();
  assert.deepEqual([planner.cursor(), planner.unplanned()], [3, 0]);
});

test('many deliveries are committed in parts, with turns for others between them; a stop ends after the part at hand', async (t) => {
  const { store, clock, cache, planner } = plannerRig(t);
  for (let id = 1; id <= 150; id++) cache.put(id);
  const keys = Array.from({ length: 120 }, (_, n) => `k${n}`);
  await emitEach(store, keys);
  planner.start();
  const seen: number[] = [];
  let ended = false;
  const reload = (): void => {
    seen.push(planner.cursor());
    if (!ended) setImmediate(reload);
  };
  reload();
  planner.onPlanned(() => {
    if (planner.cursor() === 81) void planner.stop().then(() => (ended = true));
  });
  clock.advance(0);
  await turnsUntil('stopped', () => ended);
  assert.deepEqual([...new Set(seen)], [0, 27, 54, 81]);
  await plannerOn(store, cache, clock).caughtUp();
  assert.equal(deliveriesIn(store).length, 150 * 120);
});
