/**
 * The disk fills up, or fails, while it is to be stored how deliveries ended, or which there are to be: nothing is lost,
 * nothing that was accepted is sent again while the hub runs, and it recovers automatically.
 */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it, type TestContext } from 'node:test';
import { fill, mountSmall } from '../../src/shared/base/small-disk.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { type Toml, temporaryDirectory } from './daemon.ts';
import { type Hub, startHub } from './hub.ts';
import type { HubApi } from './hub-api.ts';
import { apiOf, create, dictionary } from './hub-support.ts';
import { inject, straceWorks } from './strace.ts';
import { type Receiver, startReceiver } from './webhook-receiver.ts';
import {
  assertFaultless,
  deliveriesOf,
  SECRET,
  settled,
  subscribe,
  webhookStatus,
  webhooksConfig,
} from './webhooks-support.ts';

const withoutStrace = straceWorks() ? false : 'strace cannot trace here';
const DELIVERIES = 20;
/** Storing is tried again after 1 s, 2 s, 4 s, ... */
const RECOVERED_MS = 60_000;
const notStored = /how deliveries ended could not be stored/;
const failing = 'fsync,fdatasync:error=EIO';

interface Scene {
  readonly receiver: Receiver;
  readonly hub: Hub;
  readonly api: HubApi;
  readonly id: string;
}

async function scene(t: TestContext, dir: string, more: Toml = {}): Promise<Scene> {
  const receiver = await startReceiver(t, { secrets: [SECRET] });
  const hub = await startHub({ dir, config: { ...webhooksConfig([receiver], { timeout_ms: 60_000 }), ...more } });
  const api = apiOf(hub);
  await dictionary(api, 'd');
  const { id } = await subscribe(api, receiver, 'all');
  return { receiver, hub, api, id };
}

/** Deliveries that are planned, the first of which is with the subscriber and not answered. */
async function underWay({ receiver, api }: Scene): Promise<void> {
  await receiver.script([{ fault: 'hang' }]);
  for (let i = 0; i < DELIVERIES; i++) await create(api, 'd', `key ${i}`, {});
  await receiver.received(1);
  const isPlanned = async (): Promise<boolean> => {
    const { waiting, unplannedEvents } = await webhookStatus(api);
    return waiting === DELIVERIES && unplannedEvents === 0;
  };
  await until('all are planned', isPlanned);
}

/** All delivered, each by one request. */
async function assertDelivered({ receiver, api, id }: Scene): Promise<void> {
  const all = await settled(api, id, RECOVERED_MS);
  assert.ok(all.every(({ state, attempts }) => state === 'delivered' && attempts === 1));
  const sent = receiver.requests().map(({ body }) => body?.deliveryId ?? '');
  assert.deepEqual(sent.toSorted(), all.map(({ deliveryId }) => deliveryId).toSorted());
  assertFaultless(receiver);
}

describe('how deliveries ended cannot be stored', { concurrency: true }, () => {
  it('while the disk is full: each is sent once, and that is stored when there is room', async (t) => {
    const dir = temporaryDirectory();
    const data = join(dir, 'data');
    if (!mountSmall(t, data, 'size=12m')) return;
    const full = await scene(t, dir, { outbox: { min_free_bytes: 0 } });
    const { hub, receiver, api } = full;
    await underWay(full);
    fill(join(data, 'filler'));
    // What the log of changes still has room for goes, too.
    await until('a change is refused', async () => {
      const body = { businessKey: 'refused', data: { text: 'x'.repeat(100_000) } };
      return (await api.post('/api/v1/dictionaries/d/records', body)).status === 507;
    });
    await receiver.release();
    await hub.waitFor(notStored);
    await receiver.received(DELIVERIES);
    const now = await webhookStatus(api);
    assert.ok(now.waiting > 0 && now.inFlight === 0, JSON.stringify(now));
    rmSync(join(data, 'filler'));
    await hub.waitFor(/how deliveries ended can be stored again/);
    await assertDelivered(full);
    assert.equal(await hub.stop(), 0);
  });

  it('while fsync fails: each is sent once, and that is stored when the disk works again', {
    skip: withoutStrace,
  }, async (t) => {
    const broken = await scene(t, temporaryDirectory());
    const { hub, receiver, api } = broken;
    await underWay(broken);
    const injection = await inject(hub.pid(), failing);
    await receiver.release();
    await hub.waitFor(notStored);
    await receiver.received(DELIVERIES);
    assert.equal((await webhookStatus(api)).waiting, DELIVERIES);
    await injection.end();
    await assertDelivered(broken);
    assert.equal(await hub.stop(), 0);
  });
});

it('deliveries cannot be planned while fsync fails after a change: it is planned once, when the disk works again', {
  skip: withoutStrace,
}, async (t) => {
  const broken = await scene(t, temporaryDirectory());
  const { receiver, hub, api, id } = broken;
  // The change itself is still stored: SQLite syncs its log once for each commit.
  const injection = await inject(hub.pid(), `${failing}:when=2+`);
  await create(api, 'd', 'key', { n: 1 });
  await until('it is not planned', async () => (await webhookStatus(api)).unplannedEvents === 1);
  await hub.waitFor(/warn .*webhook/);
  assert.equal((await deliveriesOf(api, id)).length, 0);
  await injection.end();
  const [request, ...others] = await receiver.received(1, '/all', RECOVERED_MS);
  const all = await settled(api, id, RECOVERED_MS);
  assert.deepEqual([all.length, others.length], [1, 0]);
  assert.equal(request?.body?.deliveryId, all[0]?.deliveryId);
  assertFaultless(receiver);
  assert.equal(await hub.stop(), 0);
});
