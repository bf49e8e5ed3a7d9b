/** What the central side will never have of the serial log, because it was gone before it could be sent: it is told exactly that. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, before, describe, test } from 'node:test';
import { brokerMissing, startBroker, type TestBroker } from '../kafka/broker.ts';
import { isAlive, startBoth } from './hub.ts';
import { DELIVERED_MS, killable } from './hub-support.ts';
import { logOf, readUpstream, shippedOf, upstreamConsumerMissing } from './upstream-reader.ts';
import { config, DEVICE, figure, shipped, writeEntries } from './upstream-support.ts';
import { until } from './wait.ts';

const skip = brokerMissing || upstreamConsumerMissing();

describe('entries that were gone before they could be sent', { skip }, () => {
  let broker: TestBroker;
  before(async () => {
    broker = await startBroker(killable);
  });
  afterEach(async () => {
    broker.thaw();
    if (!isAlive(broker.pid())) await broker.restart();
  });

  test('an outage longer than the log reaches back: what retention took is a gap of exactly so many', async () => {
    const topic = 'overtaken.log';
    await broker.kill();
    const both = await startBoth({
      config: config(broker, topic, {}, { log: { commit_ms: 50, max_bytes: 1_048_576 } }),
    });
    await writeEntries(both.client, 10);
    await until('its beginning was seen', async () => (await figure(both, 'lag_entries')) >= 10);
    let written = 10;
    await until('retention takes some', async () => {
      await writeEntries(both.client, 100, 4_000, written);
      written += 100;
      return Number((await both.client.line.getStatus({})).log?.prunedEntries ?? 0) > 300;
    });
    await broker.restart();
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
    const told = both.logLines.filter((line) => line.includes('entries that it will not get'));
    assert.deepEqual([told.length, told[0]?.includes(`entries=${gap.entries}`)], [1, true]);
    assert.equal(await both.stop(), 0);
  });

  test('a log that was lost with its card: the end that nobody will see is open, and the new log begins', async () => {
    const topic = 'replaced.log';
    const both = await startBoth({ config: config(broker, topic) });
    await writeEntries(both.client, 40);
    await shipped(both);
    const old = (await logOf(both.client)).logId;
    await broker.kill();
    await writeEntries(both.client, 25, 200, 40);
    await until('they wait', async () => (await figure(both, 'lag_entries')) === 25, DELIVERED_MS);
    assert.equal(await both.stop(), 0);
    for (const file of ['log.db', 'log.db-wal', 'log.db-shm']) rmSync(join(both.dir, 'data', file), { force: true });
    const again = await startBoth({ dir: both.dir });
    await writeEntries(again.client, 15, 200, 65);
    await broker.restart();
    await until('the new log is sent', async () => (await figure(again, 'lag_entries')) === 0, DELIVERED_MS);
    const { logId, entries } = await logOf(again.client);
    assert.notEqual(logId, old);
    const batches = await readUpstream(broker.plain, topic, DEVICE);
    const before = shippedOf(batches, old);
    assert.equal(before.entries.length, 40);
    const reason = 'the log was replaced by another';
    assert.deepEqual(before.gaps, [
      { cause: 'LOG_REPLACED', firstId: 41, lastId: 65, entries: 25, openEnded: true, reason },
    ]);
    const after = shippedOf(batches, logId);
    assert.deepEqual(new Map(after.entries.map(({ id, raw }) => [id, raw])), entries);
    assert.deepEqual(after.gaps, []);
    assert.equal(await again.stop(), 0);
  });
});
