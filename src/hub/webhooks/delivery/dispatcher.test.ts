import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settled } from '../../../shared/base/fake-clock.fixture.ts';
import {
  accepted,
  attemptsIn,
  broken,
  type Call,
  dispatcherRig,
  hourMs,
  listIn,
  plan,
  type Rig,
  rowsIn,
  scheduleS,
  silent,
  startedRig,
  startedWith,
  statesIn,
  subscribe,
  unsubscribe,
} from './dispatcher.fixture.ts';

const forEver = 1_000 * hourMs;

function idsOf(calls: readonly Call[]): readonly string[] {
  return calls.map(({ deliveryId }) => deliveryId);
}

test('a delivery is sent at once, and is delivered when its acceptance is committed', async (t) => {
  const rig = await startedRig(t, { ...accepted, answer: Buffer.from('thank you') });
  await settled();
  const [call] = rig.sender.calls;
  assert.equal(call?.deliveryId, `1-${rowsIn(rig)[0]?.nonce}`);
  assert.equal(call?.subscriptionName, 'subscription 1');
  assert.match(call?.body ?? '', /"events":\[\{\}\]\}$/);
  await rig.clock.pass(20);
  assert.equal(rowsIn(rig)[0]?.state, 'pending');
  assert.equal(rig.dispatcher.status().deliveredTotal, 0, 'an acceptance alone is none');
  await rig.clock.pass(250);
  const [row] = rowsIn(rig);
  assert.deepEqual([row?.state, row?.attempts, row?.ended_run_ms], ['delivered', 1, 20]);
  assert.notEqual(row?.ended_at, null);
  assert.deepEqual(attemptsIn(rig), [
    { delivery_id: 1, attempt: 1, elapsed_ms: 20, status: 202, cause: '', message: '', answer: null },
  ]);
  const { waiting, deliveredTotal, attemptsTotal, inFlight } = rig.dispatcher.status();
  assert.deepEqual([waiting, deliveredTotal, attemptsTotal.accepted, inFlight], [0, 1, 1, 0]);
  await rig.clock.pass(hourMs);
  assert.equal(rig.sender.calls.length, 1);
});

test('the schedule, to the millisecond from the end of each attempt: ten, and it is failed', async (t) => {
  const rig = await startedRig(t, ({ atMs }) => (atMs < 200_000 ? silent : broken));
  const ends: number[] = [];
  for (let n = 1; n <= 10; n++) {
    await rig.clock.passUntil(`attempt ${n} has ended`, () => attemptsIn(rig).length === n);
    const took = attemptsIn(rig)[n - 1]?.elapsed_ms ?? 0;
    ends.push((rig.sender.calls[n - 1]?.atMs ?? Number.NaN) + took);
  }
  const waits = rig.sender.calls.slice(1).map(({ atMs }, n) => (atMs - (ends[n] ?? 0)) / 1_000);
  assert.deepEqual(waits, scheduleS.slice(1));
  assert.equal(rig.sender.calls[0]?.atMs, 0);
  const [row] = rowsIn(rig);
  assert.deepEqual([row?.state, row?.attempts, row?.ended_run_ms], ['failed', 10, ends[9]]);
  await rig.clock.pass(50 * hourMs);
  assert.equal(rig.sender.calls.length, 10);
  assert.equal(new Set(idsOf(rig.sender.calls)).size, 1);
  assert.equal(new Set(rig.sender.calls.map(({ body }) => body)).size, 1);
  const { waiting, rejected, failed, attemptsTotal } = rig.dispatcher.status();
  assert.deepEqual([waiting, rejected, failed], [0, 0, 1]);
  assert.deepEqual([attemptsTotal.timeout, attemptsTotal.http], [3, 7]);
  const attempts = attemptsIn(rig);
  assert.deepEqual([attempts[0]?.status, attempts[0]?.cause, attempts[0]?.answer], [null, 'timeout', null]);
  assert.deepEqual([attempts[9]?.status, attempts[9]?.cause, attempts[9]?.answer], [503, 'http', 'sorry']);
});

test('the next attempt takes the URL and the secret that are there then, and the same bytes', async (t) => {
  const rig = await startedRig(t, broken);
  await rig.clock.pass(1_000);
  rig.cache.put(1, { url: 'https://example.org/other', name: 'renamed' });
  rig.cache.current = 'another secret of 16 bytes';
  rig.sender.answer = () => accepted;
  await rig.clock.pass(60_000);
  const [first, second] = rig.sender.calls;
  assert.equal(second?.url, 'https://example.org/other');
  assert.equal(second?.secrets.current, 'another secret of 16 bytes');
  assert.equal(second?.body, first?.body);
  assert.equal(second?.subscriptionName, 'subscription 1', 'the name is in the bytes, which never change');
  assert.deepEqual(statesIn(rig), { delivered: 1 });
  await plan(rig, 1);
  await settled();
  assert.equal(rig.sender.calls[2]?.subscriptionName, 'renamed');
});

test('an attempt under way ends when its subscription is deleted, and is not recorded; nothing of it is sent or counted any more', async (t) => {
  const rig = await dispatcherRig(t);
  rig.sender.answer = () => silent;
  await startedWith(rig, 1, 2);
  await plan(rig, 1, 3);
  await plan(rig, 2);
  await rig.clock.pass(1_000);
  assert.equal(rig.dispatcher.status().inFlight, 2);
  await unsubscribe(rig, 1);
  await settled();
  assert.equal(rig.sender.calls[0]?.signal.aborted, true);
  assert.equal(rig.sender.calls[1]?.signal.aborted, false);
  assert.deepEqual(rig.sender.closed, ['1']);
  const { inFlight, waiting } = rig.dispatcher.status();
  assert.deepEqual([inFlight, waiting], [1, 1]);
  await rig.clock.pass(20_000);
  assert.deepEqual(
    attemptsIn(rig).map(({ delivery_id }) => delivery_id),
    [4],
  );
  assert.deepEqual(listIn(rig), ['pending 0', 'pending 0', 'pending 0', 'retrying 1']);
  assert.equal(rig.sender.calls.length, 2);
  assert.equal(rig.sender.running, 0);
});

for (const [what, off, on] of [
  ['inactive', (rig: Rig) => rig.cache.put(1, { active: false }), (rig: Rig) => rig.cache.put(1, { active: true })],
  ['blocked', (rig: Rig) => rig.cache.block(1, 'its consumer is gone'), (rig: Rig) => rig.cache.block(1, '')],
] as const) {
  test(`what waits for a subscription that is made ${what} stays due, and is sent when that is undone`, async (t) => {
    const rig = await startedRig(t, silent, { count: 2 });
    await rig.clock.pass(1_000);
    off(rig);
    await rig.clock.pass(50 * hourMs);
    assert.equal(rig.sender.calls.length, 1);
    assert.deepEqual(attemptsIn(rig), []);
    assert.equal(rig.dispatcher.status().waiting, 2);
    assert.equal(rig.dispatcher.status().oldestDueSeconds > 0, what === 'blocked', 'who is inactive is not late');
    rig.sender.answer = () => accepted;
    on(rig);
    await rig.clock.pass(1_000);
    assert.deepEqual(statesIn(rig), { delivered: 2 });
    assert.equal(rig.sender.calls.length, 3);
  });
}

test('switched off and on again while an attempt ends, the delivery is sent again once', async (t) => {
  const rig = await startedRig(t, silent);
  await settled();
  rig.sender.answer = () => accepted;
  rig.cache.put(1, { active: false });
  rig.cache.put(1, { active: true });
  await rig.clock.pass(30_000);
  assert.equal(rig.sender.calls.length, 2);
  assert.deepEqual(statesIn(rig), { delivered: 1 });
});

test('a delivery that was planned with a scope that its consumer or its subscription has lost is not sent, and is for review', async (t) => {
  const rig = await dispatcherRig(t);
  for (const id of [1, 2]) {
    await subscribe(rig, id);
    await plan(rig, id);
  }
  rig.cache.put(2, { scopes: ['INTERNAL'], url: 'https://other.example/' });
  await plan(rig, 2);
  rig.cache.open(['PUBLIC', 'INTERNAL']);
  rig.dispatcher.start();
  await rig.clock.pass(1_000);
  assert.equal(rig.sender.calls.length, 1);
  assert.deepEqual(listIn(rig), ['failed 1', 'failed 1', 'delivered 1']);
  const lost = (scopes: string): string =>
    `nothing was sent: it was planned with ${scopes}, not in its scopes or not open to its consumer any more`;
  assert.deepEqual(
    attemptsIn(rig).map(({ message }) => message),
    [lost('RESTRICTED'), lost('PUBLIC and RESTRICTED'), ''],
  );
});

test('a delivery whose events are gone, or whose body cannot be made, is failed once with the reason, without an attempt', async (t) => {
  const rig = await dispatcherRig(t);
  await subscribe(rig, 1);
  await plan(rig, 1, 3);
  await rig.store.maintain(() =>
    rig.store.connection.exec(`UPDATE webhook_contents SET body = NULL WHERE id = 1;
      UPDATE webhook_contents SET body = x'00' WHERE id = 2`),
  );
  rig.dispatcher.start();
  await rig.clock.pass(hourMs);
  assert.deepEqual(listIn(rig), ['failed 1', 'failed 1', 'delivered 1']);
  assert.equal(rig.sender.calls.length, 1);
  const [first, second] = attemptsIn(rig);
  assert.equal(first?.message, 'nothing was sent: the events of this delivery are not kept any more');
  assert.match(second?.message ?? '', /^nothing was sent: the body of this delivery is damaged: /);
  assert.deepEqual([first?.cause, first?.status, first?.elapsed_ms], ['connect', null, 0]);
  const { failed, waiting, attemptsTotal } = rig.dispatcher.status();
  assert.deepEqual([failed, waiting, attemptsTotal.connect], [2, 0, 0]);
});

test('a sender that rejects has made an attempt that failed', async (t) => {
  const rig = await dispatcherRig(t, { scheduleS: [0, 30] });
  rig.sender.send = () => Promise.reject(new Error('a fault in the sender'));
  await startedWith(rig, 1);
  await plan(rig, 1);
  await rig.clock.pass(40_000);
  assert.deepEqual(
    attemptsIn(rig).map(({ cause, message }) => [cause, message]),
    [
      ['connect', 'the attempt was aborted: a fault in the sender'],
      ['connect', 'the attempt was aborted: a fault in the sender'],
    ],
  );
  assert.deepEqual(statesIn(rig), { failed: 1 });
});

test('stop cancels attempts under way, whose deliveries stay due, and commits the results of the others', async (t) => {
  const rig = await startedRig(t, ({ subscriptionId }) => (subscriptionId === 1 ? silent : accepted), { ids: [1, 2] });
  await rig.clock.pass(30);
  assert.deepEqual(statesIn(rig), { pending: 2 });
  await rig.dispatcher.stop();
  assert.deepEqual(listIn(rig), ['pending 0', 'delivered 1']);
  assert.equal(rig.sender.running, 0);
  assert.equal(rig.store.connection.prepare('SELECT run_ms FROM webhook_progress').pluck().get(), 30);
  await rig.clock.pass(hourMs);
  assert.equal(rig.sender.calls.length, 2);
  assert.equal(rig.clock.pendingTimers, 0);
});

test('stop waits 5 s at most, for a sender or a disk that hangs', async (t) => {
  const rig = await dispatcherRig(t);
  rig.sender.send = () => new Promise(() => {});
  await startedWith(rig, 1);
  await plan(rig, 1);
  await settled();
  rig.store.maintain = () => new Promise(() => {});
  let stopped = false;
  const stopping = rig.dispatcher.stop().then(() => {
    stopped = true;
  });
  await rig.clock.pass(4_999);
  assert.equal(stopped, false);
  rig.clock.advance(1);
  await stopping;
});

test('the running time is stored every ten minutes while something waits, and not for nothing', async (t) => {
  const rig = await dispatcherRig(t);
  const saved = (): unknown => rig.store.connection.prepare('SELECT run_ms FROM webhook_progress').pluck().get();
  rig.sender.answer = () => broken;
  await startedWith(rig, 1);
  await rig.clock.pass(hourMs);
  assert.equal(saved(), 0);
  await plan(rig, 1);
  let before = rig.running.now();
  const gaps: number[] = [];
  await rig.clock.passUntil('the last attempt', () => {
    const now = Number(saved());
    if (now > before) gaps.push(now - before);
    before = Math.max(now, before);
    return statesIn(rig)['failed'] === 1;
  });
  assert.ok(Math.max(...gaps) <= 11 * 60_000, `${Math.max(...gaps)}`);
});

test('a delivery without a notification is found within a minute', async (t) => {
  const rig = await startedRig(t, accepted, { count: 0 });
  await rig.clock.pass(1_000);
  t.mock.method(rig.dispatcher, 'planned', () => {});
  await plan(rig, 1);
  await rig.clock.pass(60_100);
  rig.dispatcher.assertAlive();
  assert.deepEqual(statesIn(rig), { delivered: 1 });
});

test('the age of the oldest due delivery is in seconds of running time', async (t) => {
  const rig = await dispatcherRig(t);
  rig.cache.block(1, 'blocked');
  await startedWith(rig, 1, 2);
  assert.equal(rig.dispatcher.status().oldestDueSeconds, 0);
  await plan(rig, 1);
  await rig.clock.pass(90_000);
  rig.clock.stepWall(forEver);
  assert.equal(rig.dispatcher.status().oldestDueSeconds, 90);
});
