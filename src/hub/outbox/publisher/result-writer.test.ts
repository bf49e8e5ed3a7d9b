import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { instantOfMs } from '../../../shared/base/instant.ts';
import { change, changeAtOnce, keys, type Rig, rigFor, turns } from './publisher.fixture.ts';

function delayedRig(t: TestContext): Rig {
  const rig = rigFor(t, { markDelayMs: 1_000 });
  rig.publisher.start();
  return rig;
}

function published({ store }: Rig): unknown[] {
  return store.connection.prepare('SELECT id, published_at FROM outbox_published ORDER BY id').raw().all();
}

function publishedIds(rig: Rig): unknown[] {
  return rig.store.connection.prepare('SELECT id FROM outbox_published ORDER BY id').pluck().all();
}

async function passes(rig: Rig, ms: number): Promise<void> {
  rig.clock.advance(ms);
  await turns();
}

test('marks wait a second for each other, and have the times of the acknowledgements', async (t) => {
  const rig = delayedRig(t);
  const times: string[] = [];
  for (const key of ['a', 'b', 'c']) {
    times.push(instantOfMs(rig.clock.wallMs()));
    await change(rig.store, [key]);
    await turns();
    await passes(rig, 300);
  }
  assert.equal(rig.broker.arrived.length, 3, 'sending does not wait');
  assert.deepEqual(published(rig), []);
  assert.equal(rig.publisher.waiting, 3);
  await passes(rig, 100);
  assert.deepEqual(published(rig), [
    [1, times[0]],
    [2, times[1]],
    [3, times[2]],
  ]);
  assert.equal(rig.publisher.waiting, 0);
});

test('the next event of the key does not wait for a mark that is delayed', async (t) => {
  const rig = delayedRig(t);
  await change(rig.store, ['a', 'b', 'a']);
  await turns();
  assert.equal(rig.broker.arrived.length, 3);
  assert.deepEqual(publishedIds(rig), [1, 2]);
  await change(rig.store, ['a']);
  await turns();
  assert.equal(rig.broker.arrived.length, 4);
  assert.deepEqual(publishedIds(rig), [1, 2, 3]);
});

test('more than 50 marks do not wait', async (t) => {
  const rig = delayedRig(t);
  await changeAtOnce(rig.store, keys(50));
  await turns();
  assert.deepEqual(publishedIds(rig), []);
  await change(rig.store, ['one more']);
  await turns();
  assert.equal(publishedIds(rig).length, 51);
});

test('a refusal is written at once, with the marks that wait', async (t) => {
  const rig = delayedRig(t);
  rig.broker.answer = ({ key }) => (key.endsWith('bad') ? 'refuse for ever' : 'acknowledge');
  await change(rig.store, ['good']);
  await turns();
  assert.deepEqual(publishedIds(rig), []);
  await change(rig.store, ['bad']);
  await turns();
  assert.deepEqual(publishedIds(rig), [1]);
  assert.deepEqual(rig.store.connection.prepare('SELECT outbox_id FROM dead_letters').pluck().all(), [2]);
});

test('stopping writes the marks that wait', async (t) => {
  const rig = delayedRig(t);
  await change(rig.store, ['a', 'b']);
  await turns();
  assert.deepEqual(publishedIds(rig), []);
  await rig.publisher.stop(1_000);
  assert.deepEqual(publishedIds(rig), [1, 2]);
});
