/** What a paused subscription's deliveries keep in the outbox, with the real planner, retention and pruner. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { silentLogger } from '../../../shared/base/logger.ts';
import { recordEvent } from '../../outbox/change-store.fixture.ts';
import { Pruner } from '../../outbox/publisher/pruner.ts';
import { WaitingRows } from '../../outbox/publisher/waiting-rows.ts';
import { BodySource } from '../delivery/body-source.ts';
import { deliveriesIn, emit, emitEach, type PlannerRig, plannerRig } from '../delivery/planner.fixture.ts';
import { subscriptionRow } from '../delivery/stored.fixture.ts';
import { RetainedEvents } from './retained-events.ts';
import { beforeCommits, dayMs } from './retention.fixture.ts';
import { Retention } from './retention.ts';

interface Rig extends PlannerRig {
  runMs: number;
  readonly bodies: () => readonly (string | undefined)[];
  readonly count: (table: string) => number;
}

function rigFor(t: TestContext): Rig {
  const planned = plannerRig(t);
  const { store, planner, clock } = planned;
  const { connection } = store;
  subscriptionRow(connection, 1);
  const rig: Rig = {
    ...planned,
    runMs: 0,
    bodies: () =>
      deliveriesIn(store).map((one) => {
        const made = new BodySource(connection).bodyOf(one);
        return 'body' in made ? made.body.toString() : undefined;
      }),
    count: (table) => Number(connection.prepare(`SELECT count(*) FROM ${table}`).pluck().get()),
  };
  const limits = { keepDeliveredDays: 7, keepFailedDays: 30, maxAnswerBytes: 1_000, maxBytes: 1e9 };
  const running = { now: () => rig.runMs };
  const both = { store, clock, logger: silentLogger };
  const retention = new Retention({ ...both, ...limits, running, bodies: new BodySource(connection) });
  const kept = new RetainedEvents(connection, () => planner.cursor());
  const pruner = new Pruner({ ...both, keepPublishedDays: 7, keepAbove: () => kept.keepAbove() });
  retention.start();
  pruner.start();
  t.after(() => {
    retention.stop();
    pruner.stop();
  });
  return rig;
}

async function publish({ store }: Rig, upTo: number): Promise<void> {
  const ids = Array.from({ length: upTo }, (_, n) => n + 1);
  await store.maintain(() => new WaitingRows(store.connection).markPublished(ids, '2000-01-01T00:00:00+00:00'));
}

test('what has been due for a week needs no events any more, and its bytes stay the same', async (t) => {
  const rig = rigFor(t);
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
  assert.deepEqual([rig.count('outbox_events'), rig.count('webhook_bodies')], [4, 0], 'to the millisecond');
  rig.runMs++;
  await clock.pass(7_300_000);
  assert.deepEqual([rig.count('outbox_events'), rig.count('webhook_bodies')], [0, 1]);
  assert.deepEqual(rig.bodies(), before);
  assert.match(before[0] ?? '', /"businessKey":"b"/);
});

test('a body is not kept while one of its events stays for the broker anyway', async (t) => {
  const rig = rigFor(t);
  const { store, cache, planner, clock } = rig;
  await cache.put(store, 1);
  await emitEach(store, ['a']);
  await emit(store, recordEvent('b'), recordEvent('c'));
  await planner.caughtUp();
  await publish(rig, 2);
  rig.runMs = 30 * dayMs;
  await clock.pass(7_300_000);
  assert.deepEqual([rig.count('outbox_events'), rig.count('webhook_bodies')], [2, 1]);
  await publish(rig, 3);
  await clock.pass(7_300_000);
  assert.deepEqual([rig.count('outbox_events'), rig.count('webhook_bodies')], [0, 2]);
});

test('many are kept in several commits, and a sweep that finds none writes nothing', async (t) => {
  const rig = rigFor(t);
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
  assert.deepEqual([rig.count('webhook_bodies'), commits], [153, 4], 'the last of them for what is large');
  assert.deepEqual(rig.bodies(), before);
  commits = 0;
  await clock.pass(3_600_000);
  assert.deepEqual([rig.count('outbox_events'), commits], [0, 1], "the pruner's");
});
