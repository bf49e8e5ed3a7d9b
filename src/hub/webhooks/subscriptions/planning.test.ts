/** Subscriptions that change while the planner plans for them: each event is for the subscription as it was when that was committed. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { it } from 'node:test';
import { deliveriesIn, emitEach, plannerOn, sentIn, sentOf } from '../delivery/planner.fixture.ts';
import type { Planner } from '../delivery/planner.ts';
import { admin, request, type SubscriptionsRig, subscriptionsRig } from './subscriptions.fixture.ts';
import type { Subscriptions } from './subscriptions.ts';

interface Planned {
  readonly cache: Subscriptions;
  readonly planner: Planner;
}

/** As after a restart: both read what is committed, the planner not started. */
function again(rig: Pick<SubscriptionsRig, 'reopen' | 'store' | 'clock'>): Planned {
  let planner: Planner | undefined;
  const made = (): Planner => {
    assert.ok(planner !== undefined);
    return planner;
  };
  const cache = rig.reopen({ planner: { caughtUp: () => made().caughtUp(), cursor: () => made().cursor() } });
  planner = plannerOn(rig.store, cache, rig.clock);
  return { cache, planner };
}

function opened(t: TestContext): Omit<SubscriptionsRig, 'planner'> & Planned {
  const rig = subscriptionsRig(t);
  return { ...rig, ...again(rig) };
}

it('events before a subscription, while it is not active, or of a filter that it has no more are planned as they were committed', async (t) => {
  const rig = opened(t);
  const { cache, planner, store } = rig;
  await emitEach(store, ['before']);
  await cache.subscribe(admin, request(), '');
  await emitEach(store, ['a']);
  await cache.update(admin, '1', { name: 'MES' }, undefined, '');
  await emitEach(store, ['b']);
  await cache.update(admin, '1', { dictionaries: ['others'] }, undefined, '');
  await emitEach(store, ['not its own']);
  await cache.update(admin, '1', { dictionaries: null }, undefined, '');
  await emitEach(store, ['c']);
  await cache.update(admin, '1', { active: false }, undefined, '');
  await emitEach(store, ['asleep']);
  await cache.update(admin, '1', { active: true }, undefined, '');
  await emitEach(store, ['d']);
  await planner.caughtUp();
  assert.deepEqual(sentIn(store), ['1: a', '1: b', '1: c', '1: d']);
  const names = deliveriesIn(store).map((delivery) => sentOf(store, delivery)?.subscriptionName);
  assert.deepEqual(names, ['ERP', 'MES', 'MES', 'MES']);
});

it('after a kill nothing is planned again because of what a subscription became later', async (t) => {
  const rig = opened(t);
  const { cache, planner, store } = rig;
  await cache.subscribe(admin, request({ dictionaries: ['others'] }), '');
  await emitEach(store, ['not its own']);
  await planner.caughtUp();
  await cache.update(admin, '1', { dictionaries: null }, undefined, '');
  const restarted = again(rig);
  await restarted.planner.caughtUp();
  assert.deepEqual(sentIn(store), [], 'the cursor went along with the change');
  await emitEach(store, ['its own']);
  await restarted.planner.caughtUp();
  assert.deepEqual(sentIn(store), ['1: its own']);
});

it('the scopes that are open to the consumer decide when an event is planned; a deleted subscription has none', async (t) => {
  const rig = opened(t);
  const { cache, planner, store, consumers } = rig;
  await cache.subscribe(admin, request(), '');
  consumers.set('anna', undefined);
  await emitEach(store, ['nobody']);
  await planner.caughtUp();
  consumers.set('anna', ['PUBLIC']);
  await emitEach(store, ['anna']);
  await planner.caughtUp();
  await cache.unsubscribe(admin, '1', '');
  await emitEach(store, ['gone']);
  await planner.caughtUp();
  assert.deepEqual(sentIn(store), ['1: anna']);
});
