/** A device without a network: due deliveries wait and use no attempt; with the network back no subscriber is overloaded. */
import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import type { Delivery } from '../../src/shared/gen/http.ts';
import type { Toml } from './daemon.ts';
import { type Hub, startHub } from './hub.ts';
import type { HubApi } from './hub-api.ts';
import { apiOf, create, dictionary } from './hub-support.ts';
import { type Island, makeIsland } from './island.ts';
import { type ReceivedRequest, type Receiver, startReceiver } from './webhook-receiver.ts';
import {
  assertFaultless,
  deliveriesOf,
  deliveriesWhen,
  planned,
  SECRET,
  settled,
  subscribe,
  webhookStatus,
  webhooksConfig,
} from './webhooks-support.ts';

/** It looks for a route every 5 s. */
const BACK_MS = 120_000;
const CONNECTIONS = 4;

function islandFor(t: TestContext): Island | undefined {
  const island = makeIsland();
  if (typeof island !== 'string') return island;
  t.skip(`no network of its own here: ${island}`);
  return undefined;
}

interface Scene {
  readonly hub: Hub;
  readonly receiver: Receiver;
  readonly url: (path: string) => string;
}

/** A hub on the island, and a subscriber on the mainland. */
async function scene(t: TestContext, island: Island, webhooks: Toml = {}): Promise<Scene> {
  const { mainland, wrapper, cidr } = island;
  const receiver = await startReceiver(t, { secrets: [SECRET], host: mainland, names: `IP:${mainland}` });
  const config = webhooksConfig([receiver], { allow_cidrs: [cidr], ...webhooks });
  const hub = await startHub({ config, wrapper });
  await dictionary(apiOf(hub), 'd');
  return { hub, receiver, url: (path) => `https://${mainland}:${receiver.port}${path}` };
}

/** So many changes, each a transaction of its own. */
async function changes(api: HubApi, name: string, count: number, data: object = {}): Promise<void> {
  const one = async (i: number): Promise<void> => {
    for (let n = i; n < count; n += 8) await create(api, 'd', `${name} ${n}`, data);
  };
  await Promise.all(Array.from({ length: 8 }, (_, i) => one(i)));
}

async function untilOffline(api: HubApi, is: boolean): Promise<void> {
  await until(`offline is ${is}`, async () => (await webhookStatus(api)).offline === is, BACK_MS);
}

/** What is tried again after an attempt in vain would be so in an hour. */
async function untilNothingWaits(api: HubApi, id: string): Promise<void> {
  await planned(api);
  const done = async (): Promise<boolean> => {
    const tried = await deliveriesOf(api, id, '&state=retrying');
    assert.deepEqual(
      tried.map(({ deliveryId, lastAttempt }) => [deliveryId, lastAttempt]),
      [],
      'no attempt was in vain',
    );
    return (await webhookStatus(api)).waiting === 0;
  };
  await until('nothing waits', done, BACK_MS);
}

/** Nothing of it was tried. */
async function assertUntouched(api: HubApi, id: string, count: number, inAll = count): Promise<void> {
  const waiting = (await deliveriesOf(api, id)).filter(({ state }) => state !== 'delivered');
  assert.equal(waiting.length, count);
  for (const { state, attempts, lastAttempt } of waiting) {
    assert.deepEqual([state, attempts, lastAttempt], ['pending', 0, null]);
  }
  assert.deepEqual((await webhookStatus(api)).waiting, inAll);
}

function assertOnceEach(requests: readonly ReceivedRequest[], count: number): void {
  assert.equal(requests.length, count);
  assert.equal(new Set(requests.map(({ body }) => body?.deliveryId)).size, count);
}

/** A connection has one request at a time. */
function connectionsOf(requests: readonly ReceivedRequest[]): number {
  return new Set(requests.map(({ connection }) => connection)).size;
}

/** The first one alone, then two, each of which took `eachS` to be answered. */
function assertBeginsSmall(requests: readonly ReceivedRequest[], eachS: number): void {
  const [first = 0, second = 0, , fourth = 0] = requests.map(({ at }) => at);
  assert.ok(second - first >= eachS, `the second came ${second - first} s after the first`);
  assert.ok(fourth - second >= eachS, `the fourth came ${fourth - second} s after the second`);
}

describe('a device without a network', { concurrency: true }, () => {
  it('waits with hundreds of changes, over restarts too, and uses no attempt; then each is delivered once', async (t) => {
    const island = islandFor(t);
    if (island === undefined) return;
    const { hub, receiver, url } = await scene(t, island, { schedule_s: [0, 3_600] });
    const slow = 0.3;
    await receiver.script([
      { delayS: slow, times: 3 },
      { delayS: 0.01, times: 1_000 },
    ]);
    const { id } = await subscribe(apiOf(hub), receiver, 'all', { url: url('/all') });
    await changes(apiOf(hub), 'before', 100);
    await untilOffline(apiOf(hub), true);
    await hub.kill();
    const again = await startHub({ dir: hub.dir, wrapper: island.wrapper });
    const api = apiOf(again);
    await changes(api, 'after', 100);
    await planned(api);
    await untilOffline(api, true);
    await assertUntouched(api, id, 200);
    assert.equal(receiver.connections(), 0);
    island.plug();
    await untilNothingWaits(api, id);
    const requests = receiver.requests();
    assertOnceEach(requests, 200);
    assertBeginsSmall(requests, slow);
    assert.ok(connectionsOf(requests) <= CONNECTIONS, `${connectionsOf(requests)} connections`);
    assertFaultless(receiver);
    const { attemptsTotal, offline } = await webhookStatus(api);
    assert.deepEqual([offline, attemptsTotal['accepted'], attemptsTotal['connect']], [false, 200, 0]);
    assert.equal(await again.stop(), 0);
  });

  it('that loses its network uses no attempt either, and begins with one again when it is back', async (t) => {
    const island = islandFor(t);
    if (island === undefined) return;
    const { hub, receiver, url } = await scene(t, island, { schedule_s: [0, 3_600], timeout_ms: 2_000 });
    const api = apiOf(hub);
    island.plug();
    const { id } = await subscribe(api, receiver, 'all', { url: url('/all') });
    await changes(api, 'before', 50);
    await untilNothingWaits(api, id);
    const slow = 0.3;
    // Four may be for what the kernel still has for the connections of before.
    await receiver.script([{ delayS: slow, times: 8 }]);
    island.unplug();
    await changes(api, 'meanwhile', 100);
    await untilOffline(api, true);
    await planned(api);
    // Those that went to connections kept from before end with their time.
    await until('nothing is under way', async () => (await webhookStatus(api)).inFlight === 0);
    await assertUntouched(api, id, 100);
    const kept = receiver.connections();
    island.plug();
    await untilNothingWaits(api, id);
    await assertUntouched(api, id, 0);
    assert.equal((await webhookStatus(api)).attemptsTotal['accepted'], 150);
    const since = receiver.requests().filter(({ connection }) => connection > kept);
    assertOnceEach(since, 100);
    assertBeginsSmall(since, slow);
    assert.ok(connectionsOf(since) <= CONNECTIONS, `${connectionsOf(since)} connections`);
    assertFaultless(receiver);
    assert.equal(await hub.stop(), 0);
  });
});

/** Reaches a host, or none, each in a way of its own. */
interface Cut {
  readonly how: string;
  /** The host of this receiver is unreachable, or reachable again. */
  readonly set: (island: Island, receiver: Receiver, address: string, isCut: boolean) => Promise<void>;
}

const cuts: readonly Cut[] = [
  { how: 'whose packets are dropped', set: async (island, _, address, isCut) => island.drop(address, isCut) },
  { how: 'that refuse connections', set: (_, receiver, _address, isCut) => receiver.listen(!isCut) },
];

describe('a device with a route and two remote hosts', { concurrency: true }, () => {
  for (const { how, set } of cuts) {
    it(`${how} uses no attempt; when one takes connections again, only the attempts at the other count`, async (t) => {
      const island = islandFor(t);
      if (island === undefined) return;
      const { mainland, second, wrapper, cidr } = island;
      const hosts = [mainland, second] as const;
      const receivers = await Promise.all(
        hosts.map((host) => startReceiver(t, { secrets: [SECRET], host, names: `IP:${host}` })),
      );
      const [one, two] = receivers as [Receiver, Receiver];
      // An attempt at a host that takes connections must end in time on a busy machine.
      const schedule = { schedule_s: [0, 1, 1, 1, 3_600], timeout_ms: 5_000 };
      const config = webhooksConfig(receivers, { allow_cidrs: [cidr], ...schedule });
      const hub = await startHub({ config, wrapper });
      const api = apiOf(hub);
      await dictionary(api, 'd');
      island.plug();
      const cut = async (isCut: boolean): Promise<void> => {
        for (const [n, host] of hosts.entries()) await set(island, receivers[n] as Receiver, host, isCut);
      };
      await cut(true);
      const first = await subscribe(api, one, 'one', { url: `https://${mainland}:${one.port}/one` });
      const other = await subscribe(api, two, 'two', { url: `https://${second}:${two.port}/two` });
      await changes(api, 'key', 3);
      await untilOffline(api, true);
      await planned(api);
      const [sentBefore, dueBefore] = [island.sentBytes(), (await webhookStatus(api)).oldestDueSeconds];
      // Longer than the first four steps of the schedule, with their time-outs.
      const due = async (): Promise<number> => (await webhookStatus(api)).oldestDueSeconds - dueBefore;
      await until('several steps of the schedule are over', async () => (await due()) >= 26, BACK_MS);
      t.diagnostic(`${island.sentBytes() - sentBefore} bytes were sent in ${await due()} s`);
      assert.equal((await webhookStatus(api)).offline, true);
      await assertUntouched(api, first.id, 3, 6);
      await assertUntouched(api, other.id, 3, 6);
      await set(island, one, mainland, false);
      const used = (all: readonly Delivery[]): boolean => all.some(({ attempts }) => attempts >= 2);
      await deliveriesWhen(api, other.id, 'the other has used up attempts', used, BACK_MS);
      const all = await settled(api, first.id, BACK_MS);
      assert.deepEqual(
        all.map(({ state, attempts }) => [state, attempts]),
        Array.from({ length: 3 }, () => ['delivered', 1]),
      );
      assertOnceEach(one.requests(), 3);
      assert.equal((await webhookStatus(api)).offline, false);
      assertFaultless(one);
      assert.equal(await hub.stop(), 0);
    });
  }
});
