/** What the central side will never have of the serial log, because it was gone before it could be sent: it is told exactly that. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, before, describe, test } from 'node:test';
import { fill, mountSmall } from '../../src/shared/base/small-disk.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { brokerMissing, startBroker, type TestBroker } from '../kafka/broker.ts';
import { temporaryDirectory } from './daemon.ts';
import { LOG_STATE_OK, logStatus, openPort } from './faults.ts';
import { isAlive, startBoth } from './hub.ts';
import { DELIVERED_MS, killable } from './hub-support.ts';
import { namedPty } from './pty.ts';
import { logOf, readUpstream, shippedOf, upstreamConsumerMissing } from './upstream-reader.ts';
import { config, DEVICE, figure, shipped, writeEntries } from './upstream-support.ts';

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
    const told = both.logLines.filter((line) => line.includes('will never get these entries'));
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
    for (const file of ['log.db', 'log.db-wal', 'log.db-shm']) rmSync(join(data, file), { force: true });
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
