/** The dispatcher without a network, with a failing file, and with subscribers that are unreachable for days. */

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../shared/base/fake-clock.fixture.ts';
import { DeliveryRows } from './delivery-rows.ts';
import {
  accepted,
  attemptsIn,
  type Call,
  dispatcherRig,
  failCommits,
  hourMs,
  listIn,
  notFound,
  nowhere,
  plan,
  silent,
  startedRig,
  startedWith,
  statesIn,
  subscribe,
  unsubscribe,
} from './dispatcher.fixture.ts';
import { put } from './stored.fixture.ts';

const inFlightLimit = 256;

test('without a route no attempt is used up; within 5 s of a route deliveries resume, one at a time for each subscription', async (t) => {
  const rig = await startedRig(t, accepted, { ids: [1, 2, 3], count: 10 });
  await rig.clock.pass(1_000);
  assert.deepEqual(statesIn(rig), { delivered: 30 });
  assert.equal(Math.max(...rig.sender.calls.map(({ ofSubscription }) => ofSubscription)), 4, 'all are trusted by now');
  rig.online = false;
  rig.sender.answer = () => nowhere;
  for (const id of [1, 2, 3]) await plan(rig, id, 20);
  await rig.clock.pass(1_000);
  assert.equal(rig.dispatcher.status().offline, true);
  assert.equal(rig.dispatcher.status().inFlight, 0);
  const tried = rig.sender.calls.length;
  assert.ok(tried <= 30 + 16);
  rig.clock.advance(48 * hourMs);
  await settled();
  assert.equal(rig.sender.calls.length, tried, 'nothing is tried');
  assert.equal(attemptsIn(rig).length, 30, 'and nothing was recorded');
  assert.deepEqual(new Set(listIn(rig).slice(30)), new Set(['pending 0']));
  assert.equal(rig.dispatcher.status().waiting, 60);
  rig.online = true;
  rig.sender.answer = () => accepted;
  await rig.clock.pass(5_000);
  assert.equal(rig.dispatcher.status().offline, false);
  const back = rig.sender.calls.slice(tried);
  const first = back.filter(({ atMs }) => atMs === back[0]?.atMs);
  assert.deepEqual(new Set(first.map(({ subscriptionId }) => subscriptionId)), new Set([1, 2, 3]));
  assert.equal(first.length, 3, 'the next ones wait for an acceptance');
  await rig.clock.pass(1_000);
  assert.deepEqual(statesIn(rig), { delivered: 90 });
});

test('a subscriber on the device itself is served without a route, by its schedule', async (t) => {
  const rig = await dispatcherRig(t);
  const urls = [
    'https://127.0.0.1:8443/',
    'https://[::1]/',
    'https://mes.localhost/',
    'https://127.example/',
    'https://10.0.0.1/',
  ];
  for (const [n, url] of urls.entries()) await subscribe(rig, n + 1, { url });
  rig.online = false;
  rig.sender.answer = ({ subscriptionId }) => (subscriptionId > 3 ? nowhere : accepted);
  rig.dispatcher.start();
  await plan(rig, 5);
  await rig.clock.pass(1_000);
  assert.equal(rig.dispatcher.status().offline, true);
  for (const id of [1, 2, 3, 4]) await plan(rig, id, 20);
  await rig.clock.pass(60_000);
  assert.deepEqual(statesIn(rig), { delivered: 60, pending: 21 });
  assert.equal(rig.sender.calls.filter(({ subscriptionId }) => subscriptionId > 3).length, 1);
  rig.sender.answer = () => nowhere;
  const calls = rig.sender.calls.length;
  await plan(rig, 1);
  await rig.clock.pass(60_000);
  assert.equal(rig.sender.calls.length, calls + 2, 'it is not tried without a pause');
});

test('an answer that came while there was no route counts', async (t) => {
  const rig = await dispatcherRig(t);
  rig.sender.answer = ({ subscriptionId }) => (subscriptionId === 1 ? nowhere : { ...accepted, afterMs: 500 });
  rig.online = false;
  await startedWith(rig, 1, 2);
  for (const id of [1, 2]) await plan(rig, id);
  await rig.clock.pass(1_000);
  assert.equal(rig.dispatcher.status().offline, true);
  assert.deepEqual(listIn(rig), ['pending 0', 'delivered 1']);
});

test('dead subscribers, however many, delay no live one', async (t) => {
  const rig = await dispatcherRig(t);
  const [live, hanging] = [100, 199];
  for (let id = 1; id <= hanging; id++) await subscribe(rig, id);
  rig.sender.answer = ({ subscriptionId }) => (subscriptionId === live ? accepted : silent);
  rig.dispatcher.start();
  for (let id = 1; id <= hanging; id++) await plan(rig, id, 20);
  // Until the first attempts have shown who is dead.
  await rig.clock.pass(3 * 60_000);
  const waits: number[] = [];
  for (let n = 0; n < 50; n++) {
    const from = rig.sender.calls.length;
    const atMs = rig.clock.monoMs();
    await plan(rig, live);
    const mine = (): Call | undefined =>
      rig.sender.calls.slice(from).find(({ subscriptionId }) => subscriptionId === live);
    await rig.clock.passUntil('its turn', () => mine() !== undefined);
    waits.push((mine()?.atMs ?? Number.NaN) - atMs);
    await rig.clock.pass(700);
  }
  assert.deepEqual(new Set(waits), new Set([0]));
  assert.equal(Math.max(...rig.sender.calls.map(({ together }) => together)), 16);
});

test('after a restart what was tried in vain before is known to be dead from the first moment', async (t) => {
  const rig = await dispatcherRig(t);
  for (let id = 1; id <= 60; id++) await subscribe(rig, id);
  rig.sender.answer = () => silent;
  await rig.store.maintain(() => {
    for (let id = 1; id < 60; id++) {
      put(rig.store.connection, { subscription: id, state: 'pending', attempts: 0 });
      put(rig.store.connection, { subscription: id, state: 'retrying', dueRunMs: 30_000 });
    }
  });
  rig.dispatcher.start();
  await settled();
  assert.equal(rig.sender.calls.length, 8);
  await plan(rig, 60);
  await settled();
  assert.equal(rig.sender.calls[8]?.subscriptionId, 60);
});

test('while nothing can be stored nothing is sent twice, and only as much is sent as can be kept in memory; then all is stored', async (t) => {
  const rig = await startedRig(t, ({ subscriptionId }) => (subscriptionId === 1 ? accepted : notFound), {
    ids: [1, 2],
    count: 400,
  });
  const repair = failCommits(rig.store);
  await rig.clock.pass(hourMs);
  assert.equal(rig.sender.calls.length, inFlightLimit);
  assert.equal(new Set(rig.sender.calls.map(({ deliveryId }) => deliveryId)).size, inFlightLimit);
  assert.deepEqual(statesIn(rig), { pending: 800 });
  const { deliveredTotal, rejected, waiting, attemptsTotal } = rig.dispatcher.status();
  assert.deepEqual([deliveredTotal, rejected, waiting, attemptsTotal.accepted], [0, 0, 800, 0]);
  repair();
  await rig.clock.pass(2 * 60_000);
  assert.deepEqual(statesIn(rig), { delivered: 400, rejected: 400 });
  assert.equal(rig.sender.calls.length, 800);
  const after = rig.dispatcher.status();
  assert.deepEqual([after.deliveredTotal, after.rejected, after.waiting], [400, 400, 0]);
});

test('a subscription whose rows cannot be read delays no other, is read again after 1, 2, 4, ... 60 s, and resumes when they can', async (t) => {
  let fails = true;
  const readMs: number[] = [];
  const rig = await dispatcherRig(t, {
    bodyOf({ id }) {
      // The first three are subscription 1's.
      if (!fails || id > 3) return Buffer.from('{}');
      readMs.push(rig.clock.monoMs());
      throw Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_READ' });
    },
  });
  await startedWith(rig, 1, 2);
  for (const id of [1, 2]) await plan(rig, id, 3);
  await rig.clock.pass(10 * 60_000);
  const [pending, done] = ['pending 0', 'delivered 1'];
  assert.deepEqual(listIn(rig), [pending, pending, pending, done, done, done]);
  const waits = readMs.slice(1).map((atMs, n) => Math.round((atMs - (readMs[n] ?? 0)) / 1_000));
  assert.deepEqual(waits.slice(0, 8), [1, 2, 4, 8, 16, 32, 60, 60]);
  fails = false;
  await rig.clock.pass(61_000);
  assert.deepEqual(statesIn(rig), { delivered: 6 });
});

test('a delivery that was removed, or changed by others, while its attempt was made takes no outcome', async (t) => {
  const rig = await startedRig(t, accepted, { count: 2 });
  await settled();
  rig.sender.answer = () => ({ ...accepted, afterMs: 100 });
  await rig.clock.pass(30);
  await rig.store.maintain(() =>
    rig.store.connection.exec(
      'DELETE FROM webhook_deliveries WHERE id = 1; UPDATE webhook_deliveries SET attempts = 5 WHERE id = 2',
    ),
  );
  rig.dispatcher.dropped();
  await rig.clock.pass(5_000);
  assert.deepEqual(
    attemptsIn(rig).map(({ delivery_id, attempt }) => [delivery_id, attempt]),
    [[2, 6]],
  );
  const { waiting, deliveredTotal, attemptsTotal } = rig.dispatcher.status();
  assert.deepEqual([waiting, deliveredTotal, attemptsTotal.accepted], [0, 1, 1]);
});

test('an outcome that is committed when its subscription has been deleted changes no count', async (t) => {
  const rig = await startedRig(t, ({ subscriptionId }) => (subscriptionId === 1 ? notFound : silent), {
    ids: [1, 2],
    count: 0,
  });
  await rig.clock.pass(2_000);
  for (const id of [1, 2]) await plan(rig, id);
  await rig.clock.pass(30);
  await unsubscribe(rig, 1);
  await settled();
  assert.equal(rig.dispatcher.status().waiting, 1);
  await rig.clock.pass(1_000);
  assert.deepEqual(statesIn(rig), { rejected: 1, pending: 1 });
  const { waiting, rejected } = rig.dispatcher.status();
  assert.deepEqual([waiting, rejected], [1, 0]);
});

test('while its secret cannot be read nothing is sent to a subscription and no attempt is used up', async (t) => {
  const rig = await dispatcherRig(t);
  await subscribe(rig, 1);
  rig.cache.unreadable = 'the key is another one';
  rig.dispatcher.start();
  await plan(rig, 1, 3);
  await rig.clock.pass(hourMs);
  assert.equal(rig.sender.calls.length, 0);
  assert.deepEqual(attemptsIn(rig), []);
  rig.cache.unreadable = '';
  await rig.clock.pass(61_000);
  assert.deepEqual(statesIn(rig), { delivered: 3 });
});

test('deliveries are counted when asked for and after a change; when they cannot be counted the status shows the last counts', async (t) => {
  const counted = t.mock.method(DeliveryRows.prototype, 'counts');
  const rig = await startedRig(t, accepted, { count: 0 });
  const waiting = (): number => rig.dispatcher.status().waiting;
  assert.deepEqual([waiting(), waiting(), counted.mock.callCount()], [0, 0, 1]);
  rig.cache.block(1, 'blocked');
  await plan(rig, 1, 7);
  counted.mock.mockImplementation(() => {
    throw new Error('disk I/O error');
  });
  assert.equal(waiting(), 0);
  counted.mock.restore();
  assert.equal(waiting(), 7);
});
