/** A device that has a route and yet reaches none of its remote hosts: which attempts count, and what the probes cost. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { settled } from '../../../shared/base/fake-clock.fixture.ts';
import {
  accepted,
  attemptsIn,
  dispatcherRig,
  hourMs,
  listIn,
  nowhere,
  plan,
  type Rig,
  subscribe,
} from './dispatcher.fixture.ts';
import { probeEveryMs, probeLimitMs, type Remote } from './offline.ts';

interface Network {
  readonly rig: Rig;
  /** Hosts that take connections. */
  readonly up: Set<string>;
  readonly probed: string[];
}

/** Subscription 1 is called at the first host, 2 at the second, ...; `others` are brokers. */
async function network(
  t: TestContext,
  subscribers: readonly string[],
  others: readonly string[] = [],
): Promise<Network> {
  const rig = await dispatcherRig(t);
  const up = new Set<string>();
  const probed: string[] = [];
  for (const [n, host] of subscribers.entries()) await subscribe(rig, n + 1, { url: `https://${host}/` });
  const remote = (hostname: string): Remote => ({ hostname, port: 443, guarded: true });
  rig.remotes = [...subscribers, ...others].map(remote);
  rig.probe = ({ hostname }) => {
    probed.push(hostname);
    return { host: hostname, answers: up.has(hostname) };
  };
  rig.sender.answer = ({ url }) => (up.has(new URL(url).hostname) ? accepted : nowhere);
  rig.dispatcher.start();
  return { rig, up, probed };
}

/** What becomes of subscription 1's delivery within a second; its host takes no connection. */
for (const [what, others, probe, becomes] of [
  ['a single remote host: its attempts count, and nothing is probed', [], undefined, 'retrying 1'],
  ['one of two hosts answers: the attempts at the other count', ['b.example'], { answers: true }, 'retrying 1'],
  ['no host answers: no attempt counts', ['b.example'], { answers: false }, 'pending 0'],
  ['two names of one host are one host', ['b.example'], { host: 'a.example', answers: false }, 'retrying 1'],
  ['a host of this machine, or one that may not be called, does not count', ['b.example'], undefined, 'retrying 1'],
] as const) {
  test(what, async (t) => {
    const { rig, probed } = await network(t, ['a.example'], others);
    rig.probe = ({ hostname }) => {
      probed.push(hostname);
      if (hostname === 'a.example') return { host: hostname, answers: false };
      return probe && { host: hostname, ...probe };
    };
    await plan(rig, 1);
    await rig.clock.pass(1_000);
    assert.deepEqual(listIn(rig), [becomes]);
    assert.equal(probed.length, others.length === 0 ? 0 : 2);
  });
}

test('a broker that answers later means that the subscriber is dead', async (t) => {
  const { rig, up } = await network(t, ['a.example'], ['broker.example']);
  await plan(rig, 1);
  await rig.clock.pass(hourMs);
  assert.deepEqual(listIn(rig), ['pending 0']);
  up.add('broker.example');
  await rig.clock.pass(hourMs);
  assert.deepEqual(listIn(rig), ['retrying 4']);
});

test('an answer to another delivery during the attempt is as good as a probe', async (t) => {
  const { rig, probed } = await network(t, ['a.example', 'b.example']);
  rig.sender.answer = ({ subscriptionId }) =>
    subscriptionId === 1 ? { ...nowhere, afterMs: 10_000 } : { ...accepted, afterMs: 500 };
  for (const id of [1, 2]) await plan(rig, id);
  await rig.clock.pass(11_000);
  assert.deepEqual(listIn(rig), ['retrying 1', 'delivered 1']);
  assert.deepEqual(probed, []);
});

test('an answer to a delivery in flight ends the state', async (t) => {
  const { rig } = await network(t, ['a.example', 'b.example']);
  rig.sender.answer = ({ subscriptionId }) => (subscriptionId === 1 ? nowhere : { ...accepted, afterMs: 5_000 });
  for (const id of [1, 2]) await plan(rig, id);
  await rig.clock.pass(1_000);
  assert.equal(rig.dispatcher.status().offline, true);
  await rig.clock.pass(4_100);
  assert.equal(rig.dispatcher.status().offline, false);
});

test('probes are few: 16 to find out, then 2 each 10 s, all in turn; none while there is no route', async (t) => {
  const hosts = Array.from({ length: 40 }, (_, n) => `h${n}.example`);
  const { rig, probed } = await network(t, hosts);
  for (const id of [1, 2, 3]) await plan(rig, id);
  await rig.clock.pass(1_000);
  assert.equal(probed.length, 16);
  await rig.clock.pass(20 * probeEveryMs);
  assert.equal(probed.length, 16 + 40);
  assert.deepEqual(new Set(probed.slice(16)), new Set(hosts));
  rig.online = false;
  await rig.clock.pass(hourMs);
  assert.equal(probed.length, 16 + 40);
  assert.equal(attemptsIn(rig).length, 0);
});

test('a probe without an end is abandoned after 3 s; with the service stopped, at once', async (t) => {
  const { rig } = await network(t, ['a.example', 'b.example']);
  const signals: AbortSignal[] = [];
  rig.probe = ({ hostname }, signal) => {
    signals.push(signal);
    return new Promise((resolve) =>
      signal.addEventListener('abort', () => resolve({ host: hostname, answers: false })),
    );
  };
  await plan(rig, 1);
  await rig.clock.pass(probeLimitMs + 1_000);
  assert.equal(rig.dispatcher.status().offline, true);
  await rig.clock.pass(probeEveryMs);
  assert.deepEqual(
    signals.map(({ aborted }) => aborted),
    [true, true, false, false],
  );
  await rig.dispatcher.stop();
  await settled();
  assert.ok(signals.every(({ aborted }) => aborted));
  assert.equal(rig.clock.pendingTimers, 0);
});

test('when only one remote host is left the state ends, and its attempts count', async (t) => {
  const { rig } = await network(t, ['a.example', 'b.example']);
  await plan(rig, 1);
  await rig.clock.pass(1_000);
  assert.equal(rig.dispatcher.status().offline, true);
  rig.remotes = rig.remotes.slice(0, 1);
  await rig.clock.pass(probeEveryMs);
  assert.equal(rig.dispatcher.status().offline, false);
  assert.deepEqual(listIn(rig), ['retrying 1']);
});
