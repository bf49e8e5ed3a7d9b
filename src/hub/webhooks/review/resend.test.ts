import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { DeliveryRows } from '../delivery/delivery-rows.ts';
import {
  accepted,
  broken,
  dispatcherRig,
  failCommits,
  notFound,
  type Rig,
  subscribe,
} from '../delivery/dispatcher.fixture.ts';
import { emitEach, plannerOn } from '../delivery/planner.fixture.ts';
import { all, anna, auditOf, type ReviewAdmin, reviewAdmin } from './review.fixture.ts';

interface Journey extends Rig {
  readonly review: ReviewAdmin;
  /** Each ends in a delivery of its own. */
  readonly changed: (...keys: readonly string[]) => Promise<void>;
  /** Until so many calls have been made and all have ended and are committed. */
  readonly calls: (count: number) => Promise<void>;
}

/** Planner, dispatcher and review over one store; what is sent is answered by the script. */
async function journeyFor(t: TestContext): Promise<Journey> {
  const rig = await dispatcherRig(t);
  const { store, cache, clock, running, dispatcher, sender } = rig;
  const planner = plannerOn(store, cache, clock);
  await planner.caughtUp();
  await subscribe(rig, 1, { name: 'erp', afterEvent: planner.cursor() });
  planner.onPlanned((ids) => dispatcher.planned(ids));
  const rows = new DeliveryRows(store.connection);
  const review = reviewAdmin({ store, cache, rows, running, dispatcher });
  dispatcher.start();
  t.after(() => dispatcher.stop());
  const changed = async (...keys: readonly string[]): Promise<void> => {
    await emitEach(store, keys);
    await planner.caughtUp();
  };
  const ended = (): boolean =>
    sender.running === 0 && review.deliveries(all).items.every(({ state }) => state !== 'pending');
  const calls = (count: number): Promise<void> =>
    clock.passUntil(`${count} calls`, () => sender.calls.length >= count && ended());
  return { ...rig, review, changed, calls };
}

test('a rejected delivery is sent again with the same id and bytes, though its events have gone and the name has changed', async (t) => {
  const rig = await journeyFor(t);
  const { store, cache, review, sender, changed, calls, clock } = rig;
  sender.answer = () => notFound;
  await changed('a');
  await calls(1);
  const [rejected] = review.deliveries({ ...all, state: 'rejected' }).items;
  assert.equal(rejected?.attempts, 1);
  const deliveryId = rejected?.deliveryId ?? '';
  store.connection.exec('DELETE FROM outbox_waiting; DELETE FROM outbox_events');
  cache.put(1, { name: 'another', dictionaries: ['materials'] });
  sender.answer = () => accepted;
  clock.stepWall(1e12);
  const resent = await review.resend(anna, deliveryId, 'their table was missing');
  assert.deepEqual(
    [resent.deliveryId, resent.state, resent.attempts, resent.nextAttemptInSeconds, resent.endedAt],
    [deliveryId, 'pending', 1, 0, null],
  );
  await calls(2);
  const [first, second] = sender.calls;
  assert.equal(first?.deliveryId, deliveryId);
  assert.deepEqual(
    [second?.deliveryId, second?.body, second?.subscriptionName],
    [deliveryId, first?.body, first?.subscriptionName],
  );
  const after = review.delivery(anna, deliveryId);
  assert.deepEqual([after.state, after.attempts, after.body], ['delivered', 2, first?.body]);
  assert.deepEqual(
    after.attemptList.map(({ attempt, statusCode }) => [attempt, statusCode]),
    [
      [1, 404],
      [2, 202],
    ],
  );
  assert.deepEqual(auditOf(rig), [
    {
      actor: 'anna',
      subject: 'subscription 1 (another)',
      details: {
        subscription: 1,
        deliveries: 1,
        deliveryId,
        state: 'rejected',
        changeReason: 'their table was missing',
      },
    },
  ]);
});

test('the schedule counts again from where a delivery was sent again', async (t) => {
  const { review, sender, changed, calls, clock } = await journeyFor(t);
  sender.answer = () => broken;
  await changed('a');
  // The page is read after the last call only: the schedule takes thousands of turns.
  const failedAfter = (count: number): boolean =>
    sender.calls.length >= count && review.deliveries({ ...all, state: 'failed' }).items.length === 1;
  await clock.passUntil('failed', () => failedAfter(10));
  assert.equal(sender.calls.length, 10);
  const [failed] = review.deliveries(all).items;
  await review.resend(anna, failed?.deliveryId ?? '', '');
  const beganMs = clock.monoMs();
  await calls(12);
  assert.deepEqual(
    sender.calls.slice(10, 12).map(({ atMs }) => Math.floor((atMs - beganMs) / 1000)),
    [0, 30],
  );
  await clock.passUntil('failed again', () => failedAfter(20));
  assert.equal(sender.calls.length, 20);
  assert.equal(new Set(sender.calls.map(({ body }) => body)).size, 1);
});

test('a delivered one is sent again while its events are kept', async (t) => {
  const rig = await journeyFor(t);
  const { store, review, sender, changed, calls } = rig;
  await changed('a', 'b', 'c');
  await calls(3);
  const middle = review.deliveries(all).items[1]?.deliveryId ?? '';
  sender.answer = () => broken;
  await review.resend(anna, middle, '');
  await calls(4);
  assert.deepEqual(
    [sender.calls[3]?.deliveryId, sender.calls[3]?.body],
    [middle, sender.calls.find(({ deliveryId }) => deliveryId === middle)?.body],
  );
  const [newest, , oldest] = review.deliveries(all).items.map(({ deliveryId }) => deliveryId);
  store.connection.exec('UPDATE webhook_contents SET body = NULL WHERE id = 1');
  await assert.rejects(review.resend(anna, oldest ?? '', ''), {
    code: 'CONFLICT',
    message: /the events .* are not kept any more/,
  });
  await assert.rejects(review.resend(anna, middle, ''), { code: 'CONFLICT', message: /waits already/ });
  assert.equal(review.delivery(anna, oldest ?? '').state, 'delivered');
  assert.equal((await review.resend(anna, newest ?? '', '')).state, 'pending');
  assert.equal(auditOf(rig).length, 2, 'what was refused is not in the audit');
});

test('a delivery that waits or is in flight is not sent again, and one of two requests at once is refused', async (t) => {
  const { review, sender, changed, calls, clock } = await journeyFor(t);
  sender.answer = () => ({ ...notFound, afterMs: 5_000 });
  await changed('a');
  const deliveryId = review.deliveries(all).items[0]?.deliveryId ?? '';
  await assert.rejects(review.resend(anna, deliveryId, ''), { code: 'CONFLICT', message: /waits already/ });
  await clock.passUntil('under way', () => sender.running === 1);
  await assert.rejects(review.resend(anna, deliveryId, ''), { code: 'CONFLICT', message: /waits already/ });
  await calls(1);
  const asked = await Promise.allSettled([review.resend(anna, deliveryId, ''), review.resend(anna, deliveryId, '')]);
  assert.deepEqual(
    asked.map(({ status }) => status),
    ['fulfilled', 'rejected'],
  );
  await calls(2);
  assert.equal(sender.calls.length, 2);
});

test('sent again at the very moment an attempt ends, a delivery is never called twice at a time, nor forgotten', async (t) => {
  const { review, sender, changed, clock } = await journeyFor(t);
  sender.answer = () => notFound;
  await changed('a');
  const deliveryId = review.deliveries(all).items[0]?.deliveryId ?? '';
  for (let sent = 2; sent <= 20; sent++) {
    let isResent = false;
    while (!isResent) {
      // Between any two turns of the loop, and in the same microtask as the outcome's commit.
      for (let n = 0; n < 3 && !isResent; n++) {
        await Promise.resolve();
        isResent = await review.resend(anna, deliveryId, '').then(
          () => true,
          () => false,
        );
      }
      clock.advance(1);
      await new Promise(setImmediate);
    }
    await clock.passUntil(`call ${sent}`, () => sender.calls.length === sent);
  }
  assert.ok(sender.calls.every(({ together }) => together === 1));
  assert.equal(sender.calls.length, 20);
});

test('if nothing can be stored nothing is sent again', async (t) => {
  const rig = await journeyFor(t);
  const { store, review, sender, changed, calls, clock } = rig;
  sender.answer = () => notFound;
  await changed('a');
  await calls(1);
  const deliveryId = review.deliveries(all).items[0]?.deliveryId ?? '';
  const repair = failCommits(store);
  await assert.rejects(review.resend(anna, deliveryId, ''));
  await assert.rejects(review.resendAll(anna, '1', {}, ''));
  repair();
  await clock.pass(120_000);
  assert.deepEqual(
    [sender.calls.length, auditOf(rig).length, review.delivery(anna, deliveryId).state],
    [1, 0, 'rejected'],
  );
  assert.deepEqual(
    await review.resendAll(anna, '1', {}, ''),
    { deliveries: 1 },
    'the one that failed is not under way',
  );
});
