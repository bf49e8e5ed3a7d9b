/**
 * The serial log in transit to a broker, with a real one and an independent consumer: whatever happens on the way, the
 * consumer has all of it, in the order of the log, or is notified exactly of what is missing.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, before, describe, test } from 'node:test';
import { fill, mountSmall } from '../../src/shared/base/small-disk.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { brokerMissing, killable, startBroker, type TestBroker, TOPIC_PREFIX } from '../kafka/broker.ts';
import { temporaryDirectory } from './daemon.ts';
import { LOG_STATE_OK, logStatus, openPort } from './faults.ts';
import { type Both, isAlive, startBoth } from './hub.ts';
import { DELIVERED_MS, saslKafka } from './hub-support.ts';
import { namedPty } from './pty.ts';
import { pythonMissing } from './python.ts';
import { logOf, readUpstream, shippedOf } from './upstream-reader.ts';
import { config, DEVICE, figure, shipped, writeEntries } from './upstream-support.ts';

const skip = brokerMissing || pythonMissing('confluent_kafka, google.protobuf');

function removeLog(data: string): void {
  for (const file of ['log.db', 'log.db-wal', 'log.db-shm']) rmSync(join(data, file), { force: true });
}

describe('the serial log in transit to a broker', { skip }, () => {
  let broker: TestBroker;
  before(async () => {
    broker = await startBroker(killable);
  });
  afterEach(async () => {
    broker.thaw();
    if (!isAlive(broker.pid())) await broker.restart();
  });

  /** What the topic has of the box's log is what the box has, byte for byte. */
  async function same({ client }: Both, topic: string) {
    const { logId, entries } = await logOf(client);
    const batches = await readUpstream(broker.plain, topic, DEVICE);
    const found = shippedOf(batches, logId);
    assert.deepEqual(new Map(found.entries.map(({ id, raw }) => [id, raw])), entries);
    return { ...found, logId, batches };
  }

  test('the broker has the bytes that the line receives and the records that callers log, byte for byte, one boot to a batch', async () => {
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
    const found = await same(both, topic);
    assert.deepEqual([found.duplicates, found.gaps.length], [0, 0]);
    assert.ok(found.batches.every(({ bootId }) => bootId !== ''));
    assert.equal(await both.stop(), 0);
  });

  test('the broker unreachable, then killed in the middle of the backlog, and the hub before and after it: nothing is lost', async (t) => {
    const topic = 'killed.log';
    broker.freeze();
    // Some seconds for the backlog, so that there is a middle.
    const both = await startBoth({ config: config(broker, topic, { batch_bytes: 4_096, max_kbit_per_s: 2_000 }) });
    await writeEntries(both.client, 1_500, 500);
    await until('it waits', async () => (await figure(both, 'lag_entries')) >= 1_500, DELIVERED_MS);
    assert.equal(await figure(both, 'state{state="waiting_broker"}'), 1);
    broker.thaw();
    for (const part of [300, 600, 900]) {
      await until(`${part} are sent`, async () => (await figure(both, 'position')) >= part, DELIVERED_MS);
      if (part === 600) {
        await broker.kill();
        await broker.restart();
      } else await both.kill();
    }
    await writeEntries(both.client, 200, 500, 1_500);
    await shipped(both);
    const found = await same(both, topic);
    assert.equal(found.gaps.length, 0);
    t.diagnostic(`${found.duplicates} of ${found.entries.length} entries came again, the same`);
    assert.equal(await both.stop(), 0);
  });

  test('an outage longer than the log reaches back: what retention took is a gap of exactly so many', async () => {
    const topic = 'overtaken.log';
    broker.freeze();
    const both = await startBoth({
      config: config(broker, topic, {}, { log: { commit_ms: 50, max_bytes: 1_048_576 } }),
    });
    await writeEntries(both.client, 10);
    await until('its beginning was seen', async () => (await figure(both, 'lag_entries')) >= 10);
    let written = 10;
    await until('retention takes some', async () => {
      await writeEntries(both.client, 100, 4_000, written);
      written += 100;
      return Number((await both.client.line.getStatus({})).log?.prunedEntries ?? 0) > 600;
    });
    broker.thaw();
    await shipped(both);
    const { logId } = await logOf(both.client);
    const { entries, gaps } = shippedOf(await readUpstream(broker.plain, topic, DEVICE), logId);
    assert.deepEqual(
      gaps.map(({ cause }) => cause),
      ['OVERTAKEN'],
    );
    const [gap] = gaps;
    assert.ok(gap !== undefined && gap.entries > 300);
    // Every entry came, or is in the gap.
    const missing = Array.from({ length: written }, (_, n) => n + 1).filter(
      (id) => !entries.some((one) => one.id === id),
    );
    assert.deepEqual([missing[0], missing.at(-1), missing.length], [gap.firstId, gap.lastId, gap.entries]);
    assert.equal(await figure(both, 'lost_entries_total'), gap.entries);
    const warnings = both.logLines.filter((line) => line.includes('will never get these entries'));
    assert.deepEqual([warnings.length, warnings[0]?.includes(`entries=${gap.entries}`)], [1, true]);
    assert.equal(await both.stop(), 0);
  });

  test('a full card, and the log removed to make room: what could not be stored is a gap, at the start of the next log too', async (t) => {
    const topic = 'full.log';
    const dir = temporaryDirectory();
    const data = join(dir, 'data');
    if (!mountSmall(t, data, 'size=16m')) return;
    const pty = namedPty(dir);
    const serial = { extra_ports: [pty.portName] };
    const log = { commit_ms: 50, queue_bytes: 65_536, max_bytes: 8_388_608 };
    const both = await startBoth({ dir, config: { ...config(broker, topic), serial, log } });
    const { client } = both;
    await openPort(client, pty.portName);
    await writeEntries(client, 10);
    await shipped(both);
    const old = (await logOf(client)).logId;
    const lost = async (): Promise<number> => Number((await logStatus(client)).lostEntries);
    fill(join(data, 'filler'));
    let written = 0;
    const flood = async (atLeast: number): Promise<void> =>
      until('entries are lost', async () => {
        await pty.write(randomBytes(65_536));
        written += 65_536;
        return (await lost()) > atLeast;
      }).then(() => {});
    await flood(0);
    removeLog(data);
    fill(join(data, 'filler2'));
    await flood(await lost());
    rmSync(join(data, 'filler'));
    rmSync(join(data, 'filler2'));
    await until('another log is stored', async () => {
      const { logId, state } = await logStatus(client);
      return logId !== old && state === LOG_STATE_OK;
    });
    await writeEntries(client, 5, 200, 10);
    await shipped(both);
    const status = await logStatus(client);
    const batches = await readUpstream(broker.plain, topic, DEVICE);
    const [before, after] = [shippedOf(batches, old), shippedOf(batches, status.logId ?? '')];
    assert.equal(before.entries.filter(({ note }) => note.startsWith('entry')).length, 10);
    assert.equal(after.entries.filter(({ note }) => note.startsWith('entry')).length, 5);
    const notStored = after.gaps.filter(({ cause }) => cause === 'NOT_STORED');
    assert.ok(notStored.length > 0, JSON.stringify(after.gaps));
    assert.ok(Number(notStored[0]?.firstId) < Number(status.firstId), 'the new log begins with it');
    assert.deepEqual(
      after.gaps.map(({ cause }) => cause),
      notStored.map(() => 'NOT_STORED'),
    );
    // Each id that was given out is an entry or in a gap, once.
    const ids = [before, after].flatMap(({ entries, gaps }) => [
      ...entries.map(({ id }) => [id, id] as const),
      ...gaps.map(({ firstId, lastId }) => [firstId, lastId] as const),
    ]);
    ids.sort(([a], [b]) => a - b);
    for (const [n, [first]] of ids.entries()) assert.equal(first, (ids[n - 1]?.[1] ?? 0) + 1, JSON.stringify(ids));
    assert.equal(ids.at(-1)?.[1], Number(status.headId));
    t.diagnostic(`${await lost()} entries lost of ${written} bytes; gaps ${JSON.stringify([before.gaps, after.gaps])}`);
    assert.equal(await both.stop(), 0);
  });
});
