/** Which events stay in the outbox for webhooks, with the real planner, retention and pruner. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { deflateSync } from 'node:zlib';
import fc from 'fast-check';
import { settled } from '../../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../../shared/base/logger.ts';
import { holdStore, recordEvent } from '../../outbox/change-store.fixture.ts';
import { Pruner } from '../../outbox/publisher/pruner.ts';
import { QueueRows } from '../../outbox/publisher/queue-rows.ts';
import { BodySource } from '../delivery/body.ts';
import { deliveriesIn, emit, emitEach, type PlannerRig, plannerRig, sentIn } from '../delivery/planner.fixture.ts';
import { beforeCommits, count, put, subscriptionRow } from '../delivery/stored.fixture.ts';
import { RetainedEvents } from './retained-events.ts';
import { dayMs, retentionOf } from './retention.fixture.ts';

const hourMs = 3_600_000;
const weekMs = 7 * 24 * hourMs;

interface Rig extends PlannerRig {
  readonly kept: RetainedEvents;
  /** The pruner, started. */
  readonly prune: () => Pruner;
}

async function rigFor(t: TestContext): Promise<Rig> {
  const rig = await plannerRig(t);
  const { store, planner, clock } = rig;
  const kept = new RetainedEvents(store.connection, () => planner.cursor());
  const keepAbove = (): number => kept.keepAbove();
  const prune = (): Pruner => {
    const pruner = new Pruner({ store, keepPublishedDays: 7, keepAbove, clock, logger: silentLogger });
    t.after(() => pruner.stop());
    pruner.start();
    return pruner;
  };
  return { ...rig, kept, prune };
}

/** Long ago: all that waits for the broker, or the first so many. */
function publish({ store }: Rig, upTo = Number.MAX_SAFE_INTEGER): Promise<unknown> {
  const waiting = store.connection.prepare<[], number>('SELECT id FROM outbox_waiting').pluck().all();
  const ids = waiting.filter((id) => id <= upTo);
  return store.maintain(() => new QueueRows(store.connection).markPublished(ids, '2000-01-01T00:00:00+00:00'));
}

/** Everything is published, an hour passes, and the pruner sweeps; the events that are left. */
async function swept(rig: Rig): Promise<unknown> {
  await publish(rig);
  const pruner = rig.prune();
  await rig.clock.pass(500);
  pruner.stop();
  return rig.store.connection.prepare('SELECT id FROM outbox_events ORDER BY id').pluck().all();
}

function ended({ store }: PlannerRig, id: number, state: 'delivered' | 'pending' | 'rejected'): Promise<void> {
  const update = store.connection.prepare('UPDATE webhook_deliveries SET state = ? WHERE id = ?');
  return store.maintain(() => void update.run(state, id));
}

test('events that are not planned yet stay, and then those of the oldest delivery that waits', async (t) => {
  const rig = await rigFor(t);
  const { store, cache, planner, clock } = rig;
  await cache.put(store, 1, { afterEvent: 1 });
  await cache.put(store, 2, { dictionaries: ['parts'] });
  await emitEach(store, ['a', 'b']);
  await emit(store, recordEvent('c'), recordEvent('d', 1, { dictionary: 'parts' }));
  await emitEach(store, ['e', 'f']);
  assert.deepEqual(await swept(rig), [1, 2, 3, 4, 5, 6]);
  await planner.caughtUp();
  assert.deepEqual(sentIn(store), ['1: b', '1: c d', '2: d', '1: e', '1: f']);
  assert.deepEqual(await swept(rig), [2, 3, 4, 5, 6]);
  for (const id of [1, 2, 4]) await ended(rig, id, 'delivered');
  assert.deepEqual(await swept(rig), [4, 5, 6]);
  await ended(rig, 3, 'rejected');
  assert.deepEqual(await swept(rig), [6]);
  await ended(rig, 5, 'delivered');
  assert.deepEqual(await swept(rig), []);
  clock.advance(weekMs);
  await emitEach(store, ['g']);
  await planner.caughtUp();
  assert.deepEqual(await swept(rig), [7]);
  assert.equal(sentIn(store).at(-1), '1: g');
});

test('events of a delivery that is sent again stay, unless its body was kept', async (t) => {
  const rig = await rigFor(t);
  const { store, cache, planner, kept } = rig;
  await cache.put(store, 1);
  for (const key of ['a', 'b', 'c', 'd', 'e', 'f']) await emit(store, recordEvent(key));
  await planner.caughtUp();
  const keep = store.connection.prepare('INSERT INTO webhook_bodies (delivery_id, body) VALUES (?, ?)');
  for (const id of [1, 2, 4, 5, 6]) await ended(rig, id, 'delivered');
  await ended(rig, 3, 'rejected');
  await store.maintain(() => keep.run(3, deflateSync(Buffer.from('{}'))));
  assert.equal(kept.keepAbove(), 6);

  await ended(rig, 3, 'pending');
  kept.retainFrom(3);
  assert.equal(kept.keepAbove(), 6);
  await ended(rig, 2, 'pending');
  kept.retainFrom(2);
  assert.deepEqual(await swept(rig), [2, 3, 4, 5, 6]);
  await ended(rig, 2, 'delivered');
  assert.deepEqual(await swept(rig), []);
});

test('a removal that waits for its turn keeps the events that became needed meanwhile', async (t) => {
  const rig = await rigFor(t);
  const { store, cache, planner, clock, kept, prune } = rig;
  await cache.put(store, 1);
  await emitEach(store, ['a', 'b', 'c']);
  await planner.caughtUp();
  for (const { id } of deliveriesIn(store)) await ended(rig, id, 'delivered');
  await publish(rig);
  const release = holdStore(store);
  const again = store.connection.prepare("UPDATE webhook_deliveries SET state = 'pending' WHERE id = 2");
  const resent = store.maintain(() => {
    again.run();
    kept.retainFrom(2);
  });
  prune();
  await clock.pass(50);
  await Promise.all([release(), resent]);
  await settled();
  assert.deepEqual(store.connection.prepare('SELECT id FROM outbox_events').pluck().all(), [2, 3]);
});

test('many completed deliveries are passed in parts, and no event is released too soon', async (t) => {
  const { store, planner } = await plannerRig(t, {});
  await store.maintain(() => {
    put(store.connection, { count: 50_000 });
    store.connection.exec(`UPDATE webhook_deliveries SET first_event = 2 * id, last_event = 2 * id,
      state = iif(id = 45000, 'retrying', 'delivered')`);
  });
  const kept = new RetainedEvents(store.connection, () => 200_000);
  assert.deepEqual(
    [1, 2, 3, 4].map(() => kept.keepAbove()),
    [40_001, 80_001, 89_999, 89_999],
  );
  await store.maintain(() => store.connection.exec("UPDATE webhook_deliveries SET state = 'delivered'"));
  assert.deepEqual([kept.keepAbove(), kept.keepAbove()], [200_000, 200_000]);
  assert.equal(planner.cursor(), 0);
});

test('after a start one sweep removes what is old, however many deliveries have ended since', async (t) => {
  const rig = await rigFor(t);
  const { store, cache, planner } = rig;
  await cache.put(store, 1, { active: false });
  await emit(store, ...Array.from({ length: 1_000 }, (_, n) => recordEvent(`k${n}`)));
  await planner.caughtUp();
  // As of 90 subscriptions.
  await store.maintain(() => {
    for (let firstEvent = 1; firstEvent <= 1_000; firstEvent++) put(store.connection, { firstEvent, count: 90 });
  });
  assert.deepEqual(await swept(rig), []);
});

test('whatever waits, ends, is sent again and is removed: no event that a waiting delivery needs is free', async (t) => {
  const step = fc.oneof(
    fc.record({ kind: fc.constantFrom('insert', 'look'), n: fc.nat(3) }),
    fc.record({ kind: fc.constantFrom('end', 'again', 'remove'), n: fc.nat(60) }),
  );
  const { store } = await plannerRig(t);
  const { connection } = store;
  const nth = connection.prepare<[number], { id: number; firstEvent: number }>(
    'SELECT id, first_event AS firstEvent FROM webhook_deliveries ORDER BY id LIMIT 1 OFFSET ?',
  );
  const setState = connection.prepare('UPDATE webhook_deliveries SET state = ? WHERE id = ?');
  const remove = connection.prepare("DELETE FROM webhook_deliveries WHERE id = ? AND state = 'delivered'");
  const oldest = connection
    .prepare<[], number | null>("SELECT min(first_event) FROM webhook_deliveries WHERE state = 'pending'")
    .pluck();
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      connection.exec('DELETE FROM webhook_deliveries');
      let cursor = 0;
      const kept = new RetainedEvents(connection, () => cursor);
      for (const { kind, n } of steps) {
        const row = nth.get(n);
        if (kind === 'insert') {
          // Several of one transaction may begin with the same event.
          cursor += n;
          if (cursor > 0) put(connection, { firstEvent: cursor, state: 'pending' });
        }
        if (kind === 'end' && row !== undefined) setState.run('delivered', row.id);
        if (kind === 'again' && row !== undefined) {
          setState.run('pending', row.id);
          kept.retainFrom(row.firstEvent);
        }
        if (kind === 'remove' && row !== undefined) remove.run(row.id);
        const needed = oldest.get() ?? null;
        assert.equal(kept.keepAbove(), needed === null ? cursor : Math.min(cursor, needed - 1));
      }
    }),
  );
});

interface SweptRig extends Rig {
  runMs: number;
  readonly bodies: () => readonly (string | undefined)[];
  /** Of events, and of bodies that are kept. */
  readonly counts: () => readonly number[];
}

/** Retention and pruner are at work. */
async function sweptRig(t: TestContext): Promise<SweptRig> {
  const kept = await rigFor(t);
  const { store, clock } = kept;
  const { connection } = store;
  subscriptionRow(connection, 1);
  const source = new BodySource(connection);
  const rig: SweptRig = {
    ...kept,
    runMs: 0,
    bodies: () =>
      deliveriesIn(store).map((one) => {
        const made = source.bodyOf(one);
        return 'body' in made ? made.body.toString() : undefined;
      }),
    counts: () => ['outbox_events', 'webhook_bodies'].map((table) => count(connection, table)),
  };
  retentionOf(t, { store, clock, running: { now: () => rig.runMs } }).start();
  kept.prune();
  return rig;
}

test('a delivery that is overdue by a week needs no events any more, and its bytes stay the same', async (t) => {
  const rig = await sweptRig(t);
  const { store, cache, planner, clock } = rig;
  await cache.put(store, 1);
  await emit(store, recordEvent('a'), recordEvent('b'));
  await planner.caughtUp();
  await cache.put(store, 1, { active: false });
  await emitEach(store, ['c', 'd']);
  await planner.caughtUp();
  await publish(rig, 4);
  const before = rig.bodies();
  const dueRunMs = deliveriesIn(store)[0]?.dueRunMs ?? 0;
  rig.runMs = dueRunMs + 7 * dayMs;
  await clock.pass(3_700_000);
  assert.deepEqual(rig.counts(), [4, 0], 'to the millisecond');
  rig.runMs++;
  await clock.pass(7_300_000);
  assert.deepEqual(rig.counts(), [0, 1]);
  assert.deepEqual(rig.bodies(), before);
  assert.match(before[0] ?? '', /"businessKey":"b"/);
});

test('a body is not kept while one of its events stays for the broker anyway', async (t) => {
  const rig = await sweptRig(t);
  const { store, cache, planner, clock } = rig;
  await cache.put(store, 1);
  await emitEach(store, ['a']);
  await emit(store, recordEvent('b'), recordEvent('c'));
  await planner.caughtUp();
  await publish(rig, 2);
  rig.runMs = 30 * dayMs;
  await clock.pass(7_300_000);
  assert.deepEqual(rig.counts(), [2, 1]);
  await publish(rig, 3);
  await clock.pass(7_300_000);
  assert.deepEqual(rig.counts(), [0, 2]);
});

test('many are kept in several commits, and a sweep that finds none writes nothing', async (t) => {
  const rig = await sweptRig(t);
  const { store, cache, planner, clock } = rig;
  await cache.put(store, 1, { scopes: ['PUBLIC'] });
  const keys = Array.from({ length: 150 }, (_, n) => `k${n}`);
  await emitEach(store, keys);
  await emit(store, ...['x', 'y', 'z'].map((key) => recordEvent(key, 1, { data: { text: key.repeat(900_000) } })));
  await planner.caughtUp();
  await publish(rig, 153);
  const before = rig.bodies();
  rig.runMs = 30 * dayMs;
  let commits = 0;
  beforeCommits(store, () => commits++);
  await clock.pass(120_000);
  assert.deepEqual([rig.counts()[1], commits], [153, 4], 'the last of them for what is large');
  assert.deepEqual(rig.bodies(), before);
  commits = 0;
  await clock.pass(3_600_000);
  assert.deepEqual([rig.counts()[0], commits], [0, 1], "the pruner's");
});
