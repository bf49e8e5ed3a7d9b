/** The entries about subscribers that the dispatcher writes to the operator's log. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { recordingLogger } from '../../../shared/base/logger.fixture.ts';
import {
  accepted,
  broken,
  dispatcherRig,
  hourMs,
  notFound,
  plan,
  type Rig,
  rowsIn,
  subscribe,
  unsubscribe,
} from './dispatcher.fixture.ts';

async function loggingRig(t: TestContext): Promise<{ readonly rig: Rig; readonly logged: () => readonly string[] }> {
  const { logger, lines } = recordingLogger();
  const rig = await dispatcherRig(t, { logger });
  for (const id of [1, 2]) await subscribe(rig, id, { name: `system ${id}` });
  rig.dispatcher.start();
  return { rig, logged: () => lines.splice(0) };
}

/** Level, subscription and state of each line. */
function kinds(lines: readonly string[]): readonly string[] {
  return lines.map((line) => line.replace(/^(\w+) .*subscription=(\d+) name=(?:.* state=(\w+))?.*/, '$1 $2 $3'));
}

test('one that fails is named once, with what failed, until it takes deliveries again', async (t) => {
  const { rig, logged } = await loggingRig(t);
  rig.sender.answer = ({ subscriptionId }) => (subscriptionId === 1 ? broken : accepted);
  const [id] = await plan(rig, 1, 50);
  await plan(rig, 2, 50);
  await rig.clock.pass(60_000);
  const nonce = rowsIn(rig)[0]?.nonce;
  assert.deepEqual(logged(), [
    'warn a webhook subscriber fails: what is sent to it is tried again by the schedule subscription=1 ' +
      `name="system 1" delivery=${id}-${nonce} state=retrying attempts=1 cause=http error="answered 503"`,
  ]);
  rig.sender.answer = () => accepted;
  await rig.clock.pass(hourMs);
  assert.deepEqual(kinds(logged()), ['info 1 ']);
});

test('deliveries for review are logged once for each subscription, however many there are', async (t) => {
  const { rig, logged } = await loggingRig(t);
  rig.sender.answer = () => notFound;
  for (const id of [1, 2]) await plan(rig, id, 300);
  await rig.clock.pass(hourMs);
  assert.deepEqual(kinds(logged()).toSorted(), ['warn 1 rejected', 'warn 2 rejected']);
});

test('the log of a failed delivery also reports that its attempts are used up', async (t) => {
  const { rig, logged } = await loggingRig(t);
  rig.sender.answer = () => broken;
  await plan(rig, 1, 3);
  await rig.clock.pass(40 * hourMs);
  assert.deepEqual(kinds(logged()), ['warn 1 retrying', 'warn 1 failed']);
});

test('one that comes and goes fills no log', async (t) => {
  const { rig, logged } = await loggingRig(t);
  let calls = 0;
  rig.sender.answer = () => (calls++ % 2 === 0 ? broken : accepted);
  for (let minute = 0; minute < 60; minute++) {
    await plan(rig, 1, 10);
    await rig.clock.pass(60_000);
  }
  assert.ok(calls > 600);
  const lines = kinds(logged());
  const warnings = lines.filter((line) => line.startsWith('warn'));
  assert.ok(warnings.length >= 1 && warnings.length <= 6, `${warnings.length} in an hour`);
  assert.ok(lines.length <= 2 * warnings.length);
});

test('one that is blocked is named with the reason, and when that has ended; a deleted one no more', async (t) => {
  const { rig, logged } = await loggingRig(t);
  rig.cache.block(2, 'its consumer is gone');
  rig.cache.block(1, '');
  await rig.clock.pass(1_000);
  assert.deepEqual(logged(), [
    'warn a webhook subscription is blocked: nothing is sent to it subscription=2 name="system 2" why="its consumer is gone"',
  ]);
  rig.cache.block(2, '');
  await rig.clock.pass(1_000);
  assert.deepEqual(kinds(logged()), ['info 2 ']);
  rig.cache.block(2, 'its consumer is gone');
  await rig.clock.pass(1_000);
  logged();
  await unsubscribe(rig, 2);
  await rig.clock.pass(1_000);
  assert.deepEqual(logged(), []);
});
