/**
 * Time and the schedule: the hub is ended in the middle of delays, and the wall clock jumps by years, both
 * ways (libfaketime). A delay is one of the device's running, from the end of the attempt before.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import Database from 'better-sqlite3';
import { temporaryDirectory } from './daemon.ts';
import { fakeTime, withoutFaketime } from './faketime.ts';
import { type Hub, startHub } from './hub.ts';
import { apiOf, create, dictionary } from './hub-support.ts';
import { type ReceivedRequest, startReceiver } from './webhook-receiver.ts';
import { assertFaultless, deliveryWhen, hasEnded, SECRET, subscribe, webhooksConfig } from './webhooks-support.ts';

/** The receiver notes a request when it has read it, the hub the end of the attempt after that; both in whole ms at least. */
const CLOCKS_S = 0.002;
/** After a delay, for a busy machine. A clock that counted would move a delay by years. */
const SOON_S = 60;
/** Longer than any test: the hub is restarted within it however slow the machine is; then the test moves running time on. */
const LONG_S = 600;
/** Of a long delay, after running time has been moved on. */
const LEFT_S = 3;

function monoS(): number {
  return Number(process.hrtime.bigint()) / 1e9;
}

/** As if an ended hub had been running on: of a long delay that has just begun LEFT_S are left. */
function passLongDelay({ dir }: Hub): void {
  const file = new Database(join(dir, 'data', 'refdata.db'));
  file.prepare('UPDATE webhook_progress SET run_ms = run_ms + ?').run((LONG_S - LEFT_S) * 1_000);
  file.close();
}

test('a wall clock that jumps by years moves no retry: each comes when its delay has passed, across restarts too', {
  skip: withoutFaketime,
}, async (t) => {
  const { env, set: jump } = fakeTime(temporaryDirectory(), '+0');
  const steps: readonly (readonly [years: number, delayS: number, how: 'SIGTERM' | 'SIGKILL' | ''])[] = [
    [10, 3, ''],
    [-20, 3, ''],
    [3, LONG_S, 'SIGTERM'],
    [-6, LONG_S, 'SIGKILL'],
    [0, 3, ''],
  ];
  const receiver = await startReceiver(t, { secrets: [SECRET], lasting: true });
  const schedule = { schedule_s: [0, ...steps.map(([, delayS]) => delayS)] };
  const hub = await startHub({ config: webhooksConfig([receiver], schedule), env });
  await dictionary(apiOf(hub), 'd');
  const { id } = await subscribe(apiOf(hub), receiver, 'all');
  await receiver.script([{ status: 500, times: steps.length }]);
  await create(apiOf(hub), 'd', 'key', { n: 1 });
  let running = hub;
  const jumpedS: number[] = [];
  for (const [i, [years, , how]] of steps.entries()) {
    await deliveryWhen(apiOf(running), id, ({ attempts }) => attempts > i);
    jump(`${years < 0 ? '' : '+'}${years}y`);
    jumpedS.push(monoS());
    if (how === '') continue;
    if (how === 'SIGKILL') await running.kill();
    else assert.equal(await running.stop(), 0);
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
