import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, it } from 'node:test';
import {
  admin,
  emit,
  lastEvent,
  request,
  type SubscriptionsRig,
  stateOf,
  subscribedRig,
  subscriptionsRig,
  trusted,
} from './subscriptions.fixture.ts';

function storedCursor(rig: SubscriptionsRig): unknown {
  return rig.store.connection.prepare('SELECT last_event FROM webhook_progress').pluck().get();
}

describe('the cache of subscriptions', () => {
  it('is changed, and tells of it, when the commit has succeeded', async (t) => {
    const rig = subscriptionsRig(t);
    const { cache, store, consumers } = rig;
    const told: unknown[] = [];
    cache.onChanged((id) =>
      told.push([id, store.connection.inTransaction, id === undefined || cache.byId(id)?.version]),
    );
    const arrays = new Set([cache.all()]);
    const step = async (work: () => unknown): Promise<void> => {
      await work();
      assert.ok(!arrays.has(cache.all()), 'a new array');
      arrays.add(cache.all());
    };
    await step(() => cache.subscribe(admin, request(), ''));
    await step(() => cache.update(admin, '1', { active: false }, undefined, ''));
    await step(() => cache.rotateSecret(admin, '1', { secret: 's'.repeat(16) }, ''));
    await step(() => consumers.set('anna', ['PUBLIC', 'INTERNAL']));
    await step(() => cache.unsubscribe(admin, '1', ''));
    assert.deepEqual(told, [
      [1, false, 1],
      [1, false, 2],
      [1, false, 3],
      [undefined, false, true],
      [1, false, undefined],
    ]);
  });

  it('stays as it was when the commit fails, and so does the file', async (t) => {
    const rig = subscriptionsRig(t);
    const { cache, store } = rig;
    const made = await cache.subscribe(admin, request(), '');
    store.connection.exec(
      "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END",
    );
    const before = stateOf(rig);
    const allBefore = cache.all();
    const told: unknown[] = [];
    cache.onChanged((id) => told.push(id));
    const fails = (work: Promise<unknown>): Promise<void> => assert.rejects(work, /disk is full/);
    await fails(cache.subscribe(admin, request({ name: 'MES' }), ''));
    await fails(cache.update(admin, '1', { name: 'MES', active: false }, undefined, ''));
    await fails(cache.rotateSecret(admin, '1', { secret: 's'.repeat(16) }, ''));
    await fails(cache.unsubscribe(admin, '1', ''));
    assert.deepEqual(stateOf(rig), before);
    assert.equal(cache.all(), allBefore);
    assert.deepEqual(cache.subscription('1'), made);
    assert.deepEqual(cache.secrets(1, 0), { current: request().secret, previous: undefined });
    assert.deepEqual(told, []);
  });

  it('is not changed when the budget of the file is used up', async (t) => {
    const { cache, keyFile } = subscriptionsRig(t, {}, { minFreeBytes: Number.MAX_SAFE_INTEGER });
    await assert.rejects(cache.subscribe(admin, request(), ''), { code: 'STORAGE_FULL' });
    assert.equal(existsSync(keyFile), false);
  });
});

describe('the planner', () => {
  it('has caught up before a change, and its cursor is stored with it', async (t) => {
    const rig = subscriptionsRig(t);
    const { cache, store } = rig;
    await emit(store, 'a');
    await cache.subscribe(admin, request(), '');
    assert.equal(storedCursor(rig), 1);
    await emit(store, 'b');
    await cache.update(admin, '1', { name: 'MES' }, undefined, '');
    assert.equal(storedCursor(rig), 2);
    await emit(store, 'c');
    await cache.unsubscribe(admin, '1', '');
    assert.equal(storedCursor(rig), 3);
    store.connection.exec('UPDATE webhook_progress SET last_event = 9');
    await cache.subscribe(admin, request(), '');
    assert.equal(storedCursor(rig), 9, 'it is never set back');
    store.connection.exec('DELETE FROM webhook_progress');
    await cache.subscribe(admin, request({ name: 'MES' }), '');
  });

  it('plans what was committed while the change waited by what the subscription was', async (t) => {
    const rig = await subscribedRig(t);
    const { cache, store, planner } = rig;
    planner.calls = 0;
    planner.afterwards = () => (planner.calls < 4 ? emit(store, `k${planner.calls}`) : Promise.resolve());
    await cache.update(admin, '1', { active: false }, 1, '');
    assert.deepEqual([planner.calls, planner.at, lastEvent(store)], [4, 3, 3]);
    planner.afterwards = () => emit(store, `m${planner.calls}`);
    const before = stateOf(rig);
    await assert.rejects(cache.update(admin, '1', { name: 'MES' }, undefined, ''), { code: 'TOO_MANY' });
    assert.equal(planner.calls, 4 + 50, 'it is not tried for ever');
    assert.deepEqual(stateOf(rig), before);
  });

  it('that cannot plan keeps the subscriptions as they are', async (t) => {
    const rig = await subscribedRig(t);
    const { cache, planner } = rig;
    const before = stateOf(rig);
    planner.caughtUp = () => Promise.reject(new RangeError('planning fails'));
    await assert.rejects(cache.update(admin, '1', { name: 'MES' }, undefined, ''), RangeError);
    await assert.rejects(cache.unsubscribe(admin, '1', ''), RangeError);
    await assert.rejects(cache.subscribe(admin, request({ name: 'MES' }), ''), RangeError);
    assert.deepEqual(stateOf(rig), before);
  });
});

describe('the consumer of a subscription', () => {
  const state = ({ cache }: SubscriptionsRig): unknown => {
    const subscription = cache.byId(1);
    assert.ok(subscription !== undefined);
    return [cache.openScopes(subscription), cache.blocked(subscription) !== '', cache.subscription('1').blocked];
  };

  it('opens its scopes as they are now; without any, or without the consumer, nothing is sent', async (t) => {
    const rig = subscriptionsRig(t);
    const { cache, consumers } = rig;
    await cache.subscribe(trusted, request({ consumer: 'ivan', scopes: ['INTERNAL', 'PUBLIC'] }), '');
    assert.deepEqual(state(rig), [['PUBLIC', 'INTERNAL'], false, '']);
    consumers.set('ivan', ['PUBLIC']);
    const part = 'nothing of INTERNAL is sent: not open to its consumer, the token ivan';
    assert.deepEqual(state(rig), [['PUBLIC'], false, part], 'the rest is sent');
    consumers.set('ivan', ['RESTRICTED']);
    const none = 'nothing of PUBLIC and INTERNAL is sent: not open to its consumer, the token ivan';
    assert.deepEqual(state(rig), [[], true, none]);
    consumers.set('ivan', undefined);
    assert.deepEqual(state(rig), [[], true, 'its consumer, the token ivan, is gone']);
    await cache.update(admin, '1', { active: false }, undefined, '');
    assert.equal(cache.subscription('1').blocked, '', 'it is not active: that is reason enough');
    await assert.rejects(cache.update(admin, '1', { scopes: ['PUBLIC'] }, undefined, ''), { code: 'INVALID_ARGUMENT' });
    consumers.set('ivan', ['PUBLIC', 'INTERNAL', 'RESTRICTED']);
    const back = await cache.update(trusted, '1', { active: true }, undefined, '');
    assert.deepEqual([back.scopes, back.blocked], [['PUBLIC', 'INTERNAL'], ''], 'no scope comes by itself');
  });
});
