/**
 * The serial log on its way to a broker, with a real one and an independent consumer: whatever happens on the way, the
 * consumer has all of it, in the order of the log, or is told exactly what is missing.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { afterEach, before, describe, test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { brokerMissing, startBroker, type TestBroker, TOPIC_PREFIX } from '../kafka/broker.ts';
import { temporaryDirectory } from './daemon.ts';
import { openPort, RX } from './faults.ts';
import { isAlive, startBoth } from './hub.ts';
import { DELIVERED_MS, killable, saslKafka } from './hub-support.ts';
import { logOf, readUpstream, shippedOf, upstreamConsumerMissing } from './upstream-reader.ts';
import { config, DEVICE, figure, shipped, writeEntries } from './upstream-support.ts';

const skip = brokerMissing || upstreamConsumerMissing();

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
    const dir = temporaryDirectory();
    // Over TLS with a password, as a device in the field.
    const { kafka = {} } = saslKafka(broker, dir, TOPIC_PREFIX);
    const topic = `${TOPIC_PREFIX}.log`;
    const both = await startBoth({ dir, config: config(broker, topic, {}, { kafka }) });
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

  test('the broker away, the hub killed in the middle of the backlog, the broker too, twice: nothing is lost', async (t) => {
    const topic = 'killed.log';
    await broker.kill();
    // Some seconds for the backlog, so that there is a middle.
    const both = await startBoth({ config: config(broker, topic, { batch_bytes: 4_096, max_kbit_per_s: 2_000 }) });
    await writeEntries(both.client, 1_500, 500);
    await until('it waits', async () => (await figure(both, 'lag_entries')) >= 1_500, DELIVERED_MS);
    assert.equal(await figure(both, 'state{state="waiting_broker"}'), 1);
    await broker.restart();
    for (const part of [300, 600, 900]) {
      await until(`${part} are sent`, async () => (await figure(both, 'position')) >= part, DELIVERED_MS);
      if (part === 600) {
        await broker.kill();
        await broker.restart();
      } else await both.kill();
    }
    await writeEntries(both.client, 200, 500, 1_500);
    await shipped(both);
    const { logId, entries } = await logOf(both.client);
    const found = shippedOf(await readUpstream(broker.plain, topic, DEVICE), logId);
    assert.deepEqual(new Map(found.entries.map(({ id, raw }) => [id, raw])), entries);
    assert.equal(found.gaps.length, 0);
    t.diagnostic(`${found.duplicates} of ${entries.size} entries came again, the same`);
    assert.equal(await both.stop(), 0);
  });

  test('switched off for a while, it goes on where it was: nothing twice, nothing left out', async () => {
    const topic = 'off.log';
    const both = await startBoth({ config: config(broker, topic) });
    await writeEntries(both.client, 30);
    await shipped(both);
    assert.equal(await both.stop(), 0);
    const off = await startBoth({ dir: both.dir, config: config(broker, topic, { to: 'off' }) });
    await writeEntries(off.client, 20, 200, 30);
    assert.equal(await off.stop(), 0);
    const on = await startBoth({ dir: both.dir, config: config(broker, topic) });
    await writeEntries(on.client, 10, 200, 50);
    await shipped(on);
    const { logId } = await logOf(on.client);
    const found = shippedOf(await readUpstream(broker.plain, topic, DEVICE), logId);
    const notes = Array.from({ length: 60 }, (_, n) => `entry ${n}`);
    assert.deepEqual(
      found.entries.map(({ note }) => note),
      notes,
    );
    assert.deepEqual([found.duplicates, found.gaps.length], [0, 0]);
    assert.equal(await on.stop(), 0);
  });

  test('what the topic or the configuration finds too large stops nothing: smaller batches, and a gap for one entry', async () => {
    const topic = 'small.log';
    await broker.admin.createTopic(topic, 1, { 'max.message.bytes': '20000' });
    const kafka = { bootstrap: broker.plain, max_message_bytes: 300_000 };
    const both = await startBoth({ config: config(broker, topic, { compression: 'none' }, { kafka }) });
    await writeEntries(both.client, 100, 2_000);
    await both.client.serial.logRaw({ dir: RX, rawData: randomBytes(400_000), note: 'larger than a message' });
    await both.client.serial.logRaw({ dir: RX, rawData: randomBytes(30_000), note: 'larger than the topic takes' });
    await writeEntries(both.client, 50, 2_000, 102);
    await shipped(both);
    const { logId, entries } = await logOf(both.client);
    const found = shippedOf(await readUpstream(broker.plain, topic, DEVICE), logId);
    assert.deepEqual(
      found.gaps.map(({ cause, firstId, lastId, entries: count }) => [cause, firstId, lastId, count]),
      [
        ['TOO_LARGE', 101, 101, 1],
        ['TOO_LARGE', 102, 102, 1],
      ],
    );
    assert.match(found.gaps[0]?.reason ?? '', /bytes are more than the/);
    for (const id of [101, 102]) entries.delete(id);
    assert.deepEqual(new Map(found.entries.map(({ id, raw }) => [id, raw])), entries);
    assert.equal(await both.stop(), 0);
  });
});
