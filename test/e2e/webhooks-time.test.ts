/**
 * Time and the schedule: the hub is ended in the middle of delays, and the wall clock jumps by years, both
 * ways (libfaketime). A delay is one of the device's running, from the end of the attempt before.
 */
import assert from 'node:assert/strict';
import { globSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import Database from 'better-sqlite3';
import { temporaryDirectory } from './daemon.ts';
import { type Hub, startHub } from './hub.ts';
import { apiOf, create, dictionary } from './hub-support.ts';
import { type ReceivedRequest, type Receiver, startReceiver } from './webhook-receiver.ts';
import {
  assertFaultless,
  deliveriesOf,
  deliveryWhen,
  hasEnded,
  SECRET,
  subscribe,
  webhooksConfig,
} from './webhooks-support.ts';

const [library] = globSync('/usr/lib/*/faketime/libfaketimeMT.so.1');
const withoutLibrary = library === undefined ? 'libfaketime is not installed' : false;
/** The receiver notes a request when it has read it, the hub the end of the attempt after that; both in whole ms at least. */
const CLOCKS_S = 0.002;
/** After a delay, for a busy machine. A clock that counted would move a delay by years. */
const SOON_S = 60;
/** Longer than any test: the hub is restarted within it however slow the machine is; then the test moves running time on. */
const LONG_S = 600;
/** Of a long delay, after running time has been moved on. */
const LEFT_S = 3;

interface Scene {
  readonly receiver: Receiver;
  readonly hub: Hub;
  readonly id: string;
}

/** A dictionary d, and one subscription to everything at /all. */
async function scene(t: TestContext, webhooks: object, env: Readonly<Record<string, string>> = {}): Promise<Scene> {
  const receiver = await startReceiver(t, { secrets: [SECRET] });
  if (env['LD_PRELOAD'] !== undefined) await receiver.certificate('IP:127.0.0.1', 'lasting');
  const hub = await startHub({ config: webhooksConfig([receiver], { ...webhooks }), env });
  const api = apiOf(hub);
  await dictionary(api, 'd');
  const { id } = await subscribe(api, receiver, 'all');
  return { receiver, hub, id };
}

async function ended(hub: Hub, how: 'SIGTERM' | 'SIGKILL'): Promise<void> {
  if (how === 'SIGKILL') return hub.kill();
  assert.equal(await hub.stop(), 0);
}

function monoS(): number {
  return Number(process.hrtime.bigint()) / 1e9;
}

/** The first request of a delivery, and by when the hub had stored that its attempt failed. */
async function failedOnce({ receiver, hub, id }: Scene): Promise<{ first: ReceivedRequest; knownS: number }> {
  await create(apiOf(hub), 'd', 'key', { n: 1 });
  await deliveryWhen(apiOf(hub), id, ({ state }) => state === 'retrying');
  const [first] = await receiver.received(1, '/all');
  assert.ok(first !== undefined);
  return { first, knownS: monoS() };
}

/** The hub says that the next attempt is a long delay after the end of the one before, which was between these moments. */
async function assertDue(hub: Hub, id: string, endS: number, knownS: number): Promise<void> {
  const askedS = monoS();
  const [one] = await deliveriesOf(apiOf(hub), id);
  // Rounded up to whole seconds.
  const inS = one?.nextAttemptInSeconds ?? Number.NaN;
  assert.ok(monoS() + inS >= endS + LONG_S - CLOCKS_S, `in ${inS} s: too early`);
  assert.ok(askedS + inS - 1 <= knownS + LONG_S, `in ${inS} s: the delay began again`);
}

/** As if an ended hub had been running on: of a long delay that has just begun LEFT_S are left. */
function passLongDelay({ dir }: Hub): void {
  const file = new Database(join(dir, 'data', 'refdata.db'));
  file.prepare('UPDATE webhook_progress SET run_ms = run_ms + ?').run((LONG_S - LEFT_S) * 1_000);
  file.close();
}

describe('a hub that is ended', { concurrency: true }, () => {
  for (const how of ['SIGTERM', 'SIGKILL'] as const) {
    it(`by ${how} three times in a delay makes the next attempt when the delay has passed, neither before nor a delay later`, async (t) => {
      const place = await scene(t, { schedule_s: [0, LONG_S] });
      const { receiver, hub, id } = place;
      // The delay counts from the end of the attempt, a second after the request.
      await receiver.script([{ status: 500, delayS: 1 }]);
      const { first, knownS } = await failedOnce(place);
      const endS = first.at + 1;
      let running = hub;
      for (let i = 0; i < 3; i++) {
        await assertDue(running, id, endS, knownS);
        await ended(running, how);
        if (i === 2) passLongDelay(hub);
        running = await startHub({ dir: hub.dir });
      }
      const [, second] = await receiver.received(2, '/all');
      assert.ok(second !== undefined && second.at >= endS + LEFT_S - CLOCKS_S, 'the attempt came too early');
      const one = await deliveryWhen(apiOf(running), id, hasEnded);
      assert.deepEqual([one.state, one.attempts], ['delivered', 2]);
      assert.equal(await running.stop(), 0);
    });
  }
});

/** The hub's wall clock, which the test moves. */
function clock(): { readonly env: Readonly<Record<string, string>>; jump: (by: string) => void } {
  const file = join(temporaryDirectory(), 'faketime');
  const jump = (by: string): void => {
    writeFileSync(`${file}.new`, `${by}\n`);
    renameSync(`${file}.new`, file);
  };
  jump('+0');
  const env = {
    LD_PRELOAD: library ?? '',
    FAKETIME_TIMESTAMP_FILE: file,
    FAKETIME_NO_CACHE: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    DONT_FAKE_MONOTONIC: '1',
  };
  return { env, jump };
}

describe('a wall clock that jumps by years', { concurrency: true, skip: withoutLibrary }, () => {
  it('moves no retry: each comes when its delay has passed, across restarts too', async (t) => {
    const { env, jump } = clock();
    const steps: readonly (readonly [years: number, delayS: number, how: 'SIGTERM' | 'SIGKILL' | ''])[] = [
      [10, 3, ''],
      [-20, 3, ''],
      [3, LONG_S, 'SIGTERM'],
      [-6, LONG_S, 'SIGKILL'],
      [0, 3, ''],
    ];
    const { receiver, hub, id } = await scene(t, { schedule_s: [0, ...steps.map(([, delayS]) => delayS)] }, env);
    await receiver.script([{ status: 500, times: steps.length }]);
    await create(apiOf(hub), 'd', 'key', { n: 1 });
    let running = hub;
    const jumpedS: number[] = [];
    for (const [i, [years, , how]] of steps.entries()) {
      await deliveryWhen(apiOf(running), id, ({ attempts }) => attempts > i);
      jump(`${years < 0 ? '' : '+'}${years}y`);
      jumpedS.push(monoS());
      if (how === '') continue;
      await ended(running, how);
      passLongDelay(hub);
      running = await startHub({ dir: hub.dir, env });
    }
    const one = await deliveryWhen(apiOf(running), id, hasEnded);
    assert.deepEqual([one.state, one.attempts], ['delivered', steps.length + 1]);
    const requests = receiver.requests('/all');
    assert.equal(requests.length, steps.length + 1);
    const yearOf = (attempt: number): number => Number(one.attemptList[attempt]?.at.slice(0, 4));
    for (const [i, [years, delayS, how]] of steps.entries()) {
      const [before, request] = requests.slice(i) as [ReceivedRequest, ReceivedRequest];
      const leastS = how === '' ? delayS : LEFT_S;
      const passedS = request.at - before.at;
      assert.ok(passedS >= leastS - CLOCKS_S, `attempt ${i + 2} came after ${passedS} s`);
      assert.ok(passedS <= leastS + SOON_S, `attempt ${i + 2} came after ${passedS} s`);
      assert.ok(request.raw.equals(before.raw), 'the same bytes');
      assert.equal(request.header['x-service-signature'], before.header['x-service-signature']);
      // A machine that was busy for the whole delay made the clock jump during or after the next attempt.
      const inTime = (jumpedS[i] ?? 0) < before.at + leastS;
      if (inTime || how !== '') assert.equal(yearOf(i + 1) - yearOf(0), years, 'the clock did jump');
    }
    assertFaultless(receiver);
    assert.equal(await running.stop(), 0);
  });
});
