/** Whether the loops of webhooks are seen to turn, and seen to stand. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { holdStore, recordEvent } from '../../outbox/change-store.fixture.ts';
import { dispatcherRig, startedWith } from './dispatcher.fixture.ts';
import { emit, plannerRig, turns, turnsUntil } from './planner.fixture.ts';

const plannerLimitMs = 180_000;
const refreshMs = 60_000;

test('a planner that waits for an import is well for as long as one may last, and stands when it never ends', async (t) => {
  const { store, clock, cache, planner } = plannerRig(t);
  await cache.put(store, 1);
  planner.start();
  for (let s = 0; s < 300; s++) {
    clock.advance(1_000);
    await turns();
    planner.assertAlive();
  }
  await emit(store, recordEvent('a'));
  const release = holdStore(store);
  clock.advance(1_000);
  await turns();
  clock.advance(plannerLimitMs - 1_000);
  planner.assertAlive();
  clock.advance(5_000);
  assert.throws(() => planner.assertAlive(), /it has not turned for 18\d s/);
  await release();
  await turnsUntil('planned', () => planner.unplanned() === 0);
  clock.advance(1_000);
  await turns();
  planner.assertAlive();
  await planner.stop();
  clock.advance(10 * plannerLimitMs);
  planner.assertAlive();
});

test('a planner that fails and tries again is well', async (t) => {
  const { store, clock, cache, planner } = plannerRig(t);
  await cache.put(store, 1);
  planner.start();
  clock.advance(0);
  await turns();
  store.connection.exec('ALTER TABLE webhook_deliveries RENAME TO away');
  await emit(store, recordEvent('a'));
  for (let s = 0; s < 600; s++) {
    clock.advance(1_000);
    await turns();
    planner.assertAlive();
  }
  assert.equal(planner.unplanned(), 1, 'it does fail');
  await planner.stop();
});

test('a dispatcher with nothing to do looks each minute; one whose timer never comes again is told from that', async (t) => {
  const rig = await dispatcherRig(t);
  rig.dispatcher.assertAlive();
  await startedWith(rig, 1);
  for (let minute = 0; minute < 10; minute++) {
    await rig.clock.pass(refreshMs);
    rig.dispatcher.assertAlive();
  }
  t.mock.method(rig.clock, 'timer', () => ({ cancel() {} }));
  await rig.clock.pass(refreshMs + 80_000);
  rig.dispatcher.assertAlive();
  await rig.clock.pass(20_000);
  assert.throws(() => rig.dispatcher.assertAlive(), /it has not turned for \d+ s/);
});
