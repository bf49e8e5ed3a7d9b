import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, it } from 'node:test';
import { deliveriesIn, plannerOn, sentIn, sentOf } from '../delivery/planner.fixture.ts';
import type { Planner } from '../delivery/planner.ts';
import type { SubscriptionPatch } from '../face.ts';
import {
  admin,
  emit,
  lastEvent,
  request,
  rowsOf,
  type SubscriptionsRig,
  stateOf,
  subscribedRig,
  subscriptionsRig,
  trusted,
} from './subscriptions.fixture.ts';

const all = { limit: 1_000, cursor: undefined };

describe('a changed subscription', () => {
  it('has the next version', async (t) => {
    const rig = subscriptionsRig(t);
    const { cache, clock } = rig;
    await cache.subscribe(trusted, request({ consumer: 'tess' }), '');
    const patches: readonly SubscriptionPatch[] = [
      { url: 'https://erp.example/other' },
      { active: false },
      { name: 'MES' },
      { scopes: ['PUBLIC'] },
      { scopes: null },
      { name: 'MES' },
      { dictionaries: ['tools', 'a.b'], actions: ['closed'], categories: ['dict.draft.*'] },
    ];
    for (const [at, patch] of patches.entries()) {
      clock.advance(1_000);
      const changed = await cache.update(trusted, '1', patch, at + 1, 'why');
      assert.equal(changed.version, at + 2);
      assert.ok(changed.updatedAt > changed.createdAt);
    }
    assert.deepEqual(cache.subscription('1').scopes, ['PUBLIC', 'INTERNAL', 'RESTRICTED']);
    const [audit] = rowsOf(rig, "SELECT subject, details FROM audit WHERE action = 'webhook.updated' LIMIT 1 OFFSET 2");
    assert.deepEqual(audit, {
      subject: 'subscription 1 (MES)',
      details: JSON.stringify({ subscription: 1, version: 4, changes: { name: 'MES' }, changeReason: 'why' }),
    });
    assert.deepEqual(rig.reopen().subscriptions(all), cache.subscriptions(all), 'the same after a restart');
    assert.deepEqual(rig.reopen().all(), cache.all());
  });

  it('keeps its secret and its consumer, whatever else the patch holds', async (t) => {
    const { cache } = subscriptionsRig(t);
    const made = await cache.subscribe(admin, request(), '');
    const more = { name: 'MES', secret: 'another secret of 16', consumer: 'tess', version: 7, id: '9' };
    const changed = await cache.update(admin, '1', more, undefined, '');
    assert.deepEqual(changed, { ...made, name: 'MES', version: 2, updatedAt: changed.updatedAt });
    assert.deepEqual(cache.secrets(1, 0), { current: request().secret, previous: undefined });
    const hidden = { secret: 'another secret of 16' } as SubscriptionPatch;
    await assert.rejects(cache.update(admin, '1', hidden, undefined, ''), { code: 'INVALID_ARGUMENT' });
  });

  it('is refused with every reason, and stays', async (t) => {
    const rig = await subscribedRig(t);
    const { cache, egress } = rig;
    const before = stateOf(rig);
    await assert.rejects(
      cache.update(admin, '1', { name: ' ', url: 'https://forbidden/', scopes: ['INTERNAL'] }, undefined, ''),
      {
        code: 'INVALID_ARGUMENT',
        reasons: [
          '/name must be 1 to 128 printable ASCII characters with no space at either end',
          '/scopes/0 is not open to the consumer',
          '/url: the address is not public',
          '/url: port 22 is not open',
        ],
      },
    );
    await assert.rejects(cache.update(admin, '1', {}, undefined, ''), { code: 'INVALID_ARGUMENT' });
    await assert.rejects(cache.update(admin, '1', { active: false }, 2, ''), { code: 'STALE_VERSION' });
    assert.deepEqual(stateOf(rig), before);
    await cache.update(admin, '1', { active: false }, 1, '');
    assert.equal(egress.asked.length, 2, 'a URL that stays is not judged again');
  });

  it('holds what both of two patches at a time have said; of two for one version the second is stale', async (t) => {
    const { cache } = await subscribedRig(t);
    await Promise.all([
      cache.update(admin, '1', { name: 'MES' }, undefined, ''),
      cache.update(admin, '1', { active: false }, undefined, ''),
    ]);
    const { name, active, version } = cache.subscription('1');
    assert.deepEqual([name, active, version], ['MES', false, 3]);
    const both = await Promise.allSettled([
      cache.update(admin, '1', { name: 'A' }, 3, ''),
      cache.update(admin, '1', { name: 'B' }, 3, ''),
    ]);
    assert.deepEqual(
      both.map(({ status }) => status),
      ['fulfilled', 'rejected'],
    );
    assert.ok(both[1]?.status === 'rejected' && both[1].reason.code === 'STALE_VERSION');
    assert.equal(cache.subscription('1').name, 'A');
  });

  it('is in memory what was committed last, whichever of two commits is reported first', async (t) => {
    const rig = subscriptionsRig(t);
    const { cache, planner } = rig;
    const ticks = async (count: number): Promise<void> => {
      for (let n = 0; n < count; n++) await Promise.resolve();
    };
    const after = async (count: number, work: () => Promise<unknown>): Promise<void> => {
      await ticks(count);
      await work();
    };
    planner.caughtUp = () => Promise.resolve();
    for (let count = 0; count < 12; count++) {
      const [first, second] = [
        await cache.subscribe(admin, request({ name: `first ${count}` }), ''),
        await cache.subscribe(admin, request({ name: `second ${count}` }), ''),
      ];
      await Promise.allSettled([
        cache.update(admin, first.id, { name: `renamed ${count}` }, undefined, ''),
        after(count, () => cache.rotateSecret(admin, first.id, { secret: 'another secret of 16' }, '')),
        cache.update(admin, second.id, { name: `also renamed ${count}` }, undefined, ''),
        after(count, () => cache.unsubscribe(admin, second.id, '')),
      ]);
      const again = rig.reopen();
      assert.deepEqual(cache.all(), again.all(), `${count} turns apart`);
      assert.deepEqual(cache.secrets(Number(first.id), 0), again.secrets(Number(first.id), 0));
    }
  });
});

function storedCursor(rig: SubscriptionsRig): unknown {
  return rig.store.connection.prepare('SELECT last_event FROM webhook_progress').pluck().get();
}

describe('the cache of subscriptions', () => {
  it('is changed, and notifies, when the commit has succeeded', async (t) => {
    const rig = subscriptionsRig(t);
    const { cache, store, consumers } = rig;
    const notified: unknown[] = [];
    cache.onChanged((id) =>
      notified.push([id, store.connection.inTransaction, id === undefined || cache.byId(id)?.version]),
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
    assert.deepEqual(notified, [
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
    const notified: unknown[] = [];
    cache.onChanged((id) => notified.push(id));
    const fails = (work: Promise<unknown>): Promise<void> => assert.rejects(work, /disk is full/);
    await fails(cache.subscribe(admin, request({ name: 'MES' }), ''));
    await fails(cache.update(admin, '1', { name: 'MES', active: false }, undefined, ''));
    await fails(cache.rotateSecret(admin, '1', { secret: 's'.repeat(16) }, ''));
    await fails(cache.unsubscribe(admin, '1', ''));
    assert.deepEqual(stateOf(rig), before);
    assert.equal(cache.all(), allBefore);
    assert.deepEqual(cache.subscription('1'), made);
    assert.deepEqual(cache.secrets(1, 0), { current: request().secret, previous: undefined });
    assert.deepEqual(notified, []);
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

it('events before a subscription, while it is not active, or of a filter that it has no more are planned as they were committed', async (t) => {
  const rig = subscriptionsRig(t);
  const { store } = rig;
  const made: { planner?: Planner } = {};
  const planner = { caughtUp: async () => made.planner?.caughtUp(), cursor: () => made.planner?.cursor() ?? 0 };
  const cache = rig.reopen({ planner });
  made.planner = plannerOn(store, cache, rig.clock);
  await emit(store, 'before');
  await cache.subscribe(admin, request(), '');
  await emit(store, 'a');
  await cache.update(admin, '1', { name: 'MES', active: true }, undefined, '');
  await emit(store, 'b');
  await cache.update(admin, '1', { dictionaries: ['others'] }, undefined, '');
  await emit(store, 'not its own');
  await cache.update(admin, '1', { dictionaries: null }, undefined, '');
  await emit(store, 'c');
  await cache.update(admin, '1', { active: false }, undefined, '');
  await emit(store, 'asleep');
  await cache.update(admin, '1', { active: false, name: 'PLC' }, undefined, '');
  await emit(store, 'still asleep');
  await cache.update(admin, '1', { active: true }, undefined, '');
  await emit(store, 'd');
  await made.planner.caughtUp();
  assert.deepEqual(sentIn(store), ['1: a', '1: b', '1: c', '1: d']);
  const names = deliveriesIn(store).map((delivery) => sentOf(store, delivery)?.subscriptionName);
  assert.deepEqual(names, ['ERP', 'MES', 'MES', 'PLC']);
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
    assert.deepEqual([back.scopes, back.blocked], [['PUBLIC', 'INTERNAL'], ''], 'no scope is added automatically');
  });
});
