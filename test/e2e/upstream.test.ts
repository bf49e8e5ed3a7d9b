/**
 * The serial log on its way to a broker, with a real one and an independent consumer: whatever happens on the way, the
 * consumer has all of it, in the order of the log, or is told exactly what is missing.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { afterEach, before, describe, test } from 'node:test';
import { brokerMissing, startBroker, type TestBroker } from '../kafka/broker.ts';
import type { Client, Toml } from './daemon.ts';
import { openPort, RX } from './faults.ts';
import { type Both, isAlive, startBoth } from './hub.ts';
import { DELIVERED_MS, killable } from './hub-support.ts';
import { logOf, readUpstream, shippedOf, upstreamConsumerMissing } from './upstream-reader.ts';
import { until } from './wait.ts';

const skip = brokerMissing || upstreamConsumerMissing();
const DEVICE = 'gate-7';

function config(broker: TestBroker, topic: string, upstream: Toml = {}, more: Toml = {}): Toml {
  return {
    device: { id: DEVICE, inventory: false },
    serial: { simulate: true },
    log: { commit_ms: 50 },
    kafka: { bootstrap: broker.plain },
    upstream: { to: 'kafka', topic, linger_ms: 100, ...upstream },
    ...more,
  };
}

/** Entries of a size, some at a time, so that many share a commit. */
async function writeEntries(client: Client, count: number, bytes = 200, from = 0): Promise<void> {
  const together = 100;
  for (let n = 0; n < count; n += together) {
    const some = Array.from({ length: Math.min(together, count - n) }, (_, i) =>
      client.serial.logRaw({ dir: RX, rawData: randomBytes(bytes), note: `entry ${from + n + i}` }),
    );
    await Promise.all(some);
  }
}

/** A figure of the shipper, as Prometheus gets it. */
async function figure(hub: Both, name: string): Promise<number> {
  const { body } = await hub.http('GET', '/metrics');
  return Number(new RegExp(`^lineside_upstream_${name} (\\S+)$`, 'm').exec(String(body))?.[1] ?? Number.NaN);
}

/** All that is stored now is with the broker. */
async function shipped(hub: Both): Promise<void> {
  const { log } = await hub.client.line.getStatus({});
  const last = Number(log?.lastId ?? 0);
  await until(`the position is ${last}`, async () => (await figure(hub, 'position')) >= last, DELIVERED_MS);
}

describe('the serial log on its way to a broker', { skip }, () => {
  let broker: TestBroker;
  before(async () => {
    broker = await startBroker(killable);
  });
  afterEach(async () => {
    broker.thaw();
    if (!isAlive(broker.pid())) await broker.restart();
  });

  test('what the line says and what callers log is with the broker, byte for byte, one boot to a batch', async () => {
    const topic = 'plain.log';
    const both = await startBoth({ config: config(broker, topic) });
    await openPort(both.client, `${both.dir}/run/sim0`);
    await writeEntries(both.client, 500);
    await until(
      'the simulated device has spoken',
      async () => Number((await both.client.line.getStatus({})).log?.lastId) > 505,
    );
    assert.equal((await both.client.serial.close({})).status, 0);
    await shipped(both);
    const { logId, entries } = await logOf(both.client);
    const batches = await readUpstream(broker.plain, topic, DEVICE);
    const found = shippedOf(batches, logId);
    assert.deepEqual(new Map(found.entries.map(({ id, raw }) => [id, raw])), entries);
    assert.deepEqual([found.duplicates, found.gaps.length], [0, 0]);
    assert.ok(batches.every(({ bootId }) => bootId !== ''));
    assert.equal(await both.stop(), 0);
  });
});
