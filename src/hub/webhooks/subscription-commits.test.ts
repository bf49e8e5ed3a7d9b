import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, it } from 'node:test';
import {
  admin,
  emit,
  lastEvent,
  refused,
  request,
  type SubscriptionsRig,
  stateOf,
  subscriptionsRig,
  trusted,
} from './subscriptions.fixture.ts';

function storedCursor(rig: SubscriptionsRig): unknown {
  return rig.store.connection.prepare('SELECT last_event FROM webhook_progress').pluck().get();
}

describe('the book', () => {
  it('is changed, and tells of it, when the commit has succeeded', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, store, consumers } = rig;
    const told: unknown[] = [];
    book.onChanged((id) => told.push([id, store.connection.inTransaction, id === undefined || book.byId(id)?.version]));
    const arrays = new Set([book.all()]);
    const step = async (work: () => unknown): Promise<void> => {
      await work();
      assert.ok(!arrays.has(book.all()), 'a new array');
      arrays.add(book.all());
    };
    await step(() => book.subscribe(admin, request(), ''));
    await step(() => book.update(admin, '1', { active: false }, undefined, ''));
    await step(() => book.rotateSecret(admin, '1', { secret: 's'.repeat(16) }, ''));
    await step(() => consumers.set('anna', ['PUBLIC', 'INTERNAL']));
    await step(() => book.unsubscribe(admin, '1', ''));
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
    const { book, store } = rig;
    const made = await book.subscribe(admin, request(), '');
    store.connection.exec(
      "CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(FAIL, 'database or disk is full'); END",
    );
    const before = stateOf(rig);
    const allBefore = book.all();
    const told: unknown[] = [];
    book.onChanged((id) => told.push(id));
    const fails = (work: Promise<unknown>): Promise<void> => assert.rejects(work, /disk is full/);
    await fails(book.subscribe(admin, request({ name: 'MES' }), ''));
    await fails(book.update(admin, '1', { name: 'MES', active: false }, undefined, ''));
    await fails(book.rotateSecret(admin, '1', { secret: 's'.repeat(16) }, ''));
    await fails(book.unsubscribe(admin, '1', ''));
    assert.deepEqual(stateOf(rig), before);
    assert.equal(book.all(), allBefore);
    assert.deepEqual(book.subscription('1'), made);
    assert.deepEqual(book.secrets(1, 0), { current: request().secret, previous: undefined });
    assert.deepEqual(told, []);
  });

  it('is asked for the budget by every change', async (t) => {
    const { book, keyFile } = subscriptionsRig(t, {}, { minFreeBytes: Number.MAX_SAFE_INTEGER });
    await assert.rejects(book.subscribe(admin, request(), ''), refused('STORAGE_FULL'));
    assert.equal(existsSync(keyFile), false);
  });
});

describe('the planner', () => {
  it('has caught up before a change, and its cursor is stored with it', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, store } = rig;
    await emit(store, 'a');
    await book.subscribe(admin, request(), '');
    assert.equal(storedCursor(rig), 1);
    await emit(store, 'b');
    await book.update(admin, '1', { name: 'MES' }, undefined, '');
    assert.equal(storedCursor(rig), 2);
    await emit(store, 'c');
    await book.unsubscribe(admin, '1', '');
    assert.equal(storedCursor(rig), 3);
    store.connection.exec('UPDATE webhook_progress SET last_event = 9');
    await book.subscribe(admin, request(), '');
    assert.equal(storedCursor(rig), 9, 'it is never set back');
    store.connection.exec('DELETE FROM webhook_progress');
    await book.subscribe(admin, request({ name: 'MES' }), '');
  });

  it('plans what was committed while the change waited by what the subscription was', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, store, planner } = rig;
    await book.subscribe(admin, request(), '');
    planner.calls = 0;
    planner.afterwards = () => (planner.calls < 4 ? emit(store, `k${planner.calls}`) : Promise.resolve());
    await book.update(admin, '1', { active: false }, 1, '');
    assert.deepEqual([planner.calls, planner.at, lastEvent(store)], [4, 3, 3]);
    planner.afterwards = () => emit(store, `m${planner.calls}`);
    const before = stateOf(rig);
    await assert.rejects(book.update(admin, '1', { name: 'MES' }, undefined, ''), refused('TOO_MANY'));
    assert.equal(planner.calls, 4 + 50, 'it is not tried for ever');
    assert.deepEqual(stateOf(rig), before);
  });

  it('that cannot plan keeps the subscriptions as they are', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, planner } = rig;
    await book.subscribe(admin, request(), '');
    const before = stateOf(rig);
    planner.caughtUp = () => Promise.reject(new RangeError('planning fails'));
    await assert.rejects(book.update(admin, '1', { name: 'MES' }, undefined, ''), RangeError);
    await assert.rejects(book.unsubscribe(admin, '1', ''), RangeError);
    await assert.rejects(book.subscribe(admin, request({ name: 'MES' }), ''), RangeError);
    assert.deepEqual(stateOf(rig), before);
  });
});

describe('the consumer of a subscription', () => {
  const state = ({ book }: SubscriptionsRig): unknown => {
    const known = book.byId(1);
    assert.ok(known !== undefined);
    return [book.openScopes(known), book.blocked(known) !== '', book.subscription('1').blocked];
  };

  it('opens its scopes as they are now; without any, or without the consumer, nothing is sent', async (t) => {
    const rig = subscriptionsRig(t);
    const { book, consumers } = rig;
    await book.subscribe(trusted, request({ consumer: 'ivan', scopes: ['INTERNAL', 'PUBLIC'] }), '');
    assert.deepEqual(state(rig), [['PUBLIC', 'INTERNAL'], false, '']);
    consumers.set('ivan', ['PUBLIC']);
    const part = 'nothing of INTERNAL is sent: not open to its consumer, the token ivan';
    assert.deepEqual(state(rig), [['PUBLIC'], false, part], 'the rest is sent');
    consumers.set('ivan', ['RESTRICTED']);
    const none = 'nothing of PUBLIC and INTERNAL is sent: not open to its consumer, the token ivan';
    assert.deepEqual(state(rig), [[], true, none]);
    consumers.set('ivan', undefined);
    assert.deepEqual(state(rig), [[], true, 'its consumer, the token ivan, is gone']);
    await book.update(admin, '1', { active: false }, undefined, '');
    assert.equal(book.subscription('1').blocked, '', 'it is not active: that is reason enough');
    await assert.rejects(book.update(admin, '1', { scopes: ['PUBLIC'] }, undefined, ''), refused('INVALID_ARGUMENT'));
    consumers.set('ivan', ['PUBLIC', 'INTERNAL', 'RESTRICTED']);
    const back = await book.update(trusted, '1', { active: true }, undefined, '');
    assert.deepEqual([back.scopes, back.blocked], [['PUBLIC', 'INTERNAL'], ''], 'no scope comes by itself');
  });

  it('bounds what anybody chooses later', async (t) => {
    const { book } = subscriptionsRig(t);
    await book.subscribe(trusted, request({ consumer: 'tess', scopes: ['RESTRICTED'] }), '');
    await assert.rejects(book.update(admin, '1', { name: 'MES' }, undefined, ''), refused('INVALID_ARGUMENT'));
    const renamed = await book.update(trusted, '1', { name: 'MES' }, undefined, '');
    assert.deepEqual(renamed.scopes, ['RESTRICTED']);
    const widened = await book.update(trusted, '1', { scopes: ['RESTRICTED', 'INTERNAL'] }, undefined, '');
    assert.deepEqual(widened.scopes, ['INTERNAL', 'RESTRICTED']);
  });
});
