/** Blocks as the file has them, unpacked by the hub, are the entries that the line would have encoded. */
import assert from 'node:assert/strict';
import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { runsOf } from '../../src/hub/upstream/runs.ts';
import { sendBatches } from '../../src/line/grpc/log-streams.ts';
import type { NewEntry } from '../../src/line/log/entry.ts';
import type { TimeState } from '../../src/line/log/log-api.ts';
import type { SerialLog } from '../../src/line/log/serial-log.ts';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { lineside } from '../../src/shared/proto/services.ts';
import { seeded } from '../soak/random.ts';
import { iteratorOf, MiB, newEntry, openLog } from './support.ts';

async function read(log: SerialLog, after: number, asStored: boolean): Promise<lineside.v1.LogBatch[]> {
  const { signal } = new AbortController();
  const request = { after, follow: false, storedOnly: true, asStored };
  const batches: lineside.v1.LogBatch[] = [];
  const out = {
    send(bytes: Uint8Array): undefined {
      batches.push(lineside.v1.LogBatch.decode(bytes));
    },
    endStalled() {},
  };
  await sendBatches(log, request, { signal, isShared: () => false }, out);
  return batches;
}

/** Each with its boot. */
async function asEncoded(log: SerialLog, after: number): Promise<unknown[]> {
  const batches = await read(log, after, false);
  return batches.flatMap(({ entries, bootId }) => entries.map((entry) => [bootId, entry.toJSON()]));
}

async function asStored(log: SerialLog, after: number): Promise<unknown[]> {
  let from = after;
  const all: unknown[] = [];
  for (const batch of await read(log, after, true)) {
    const through = Number(batch.nextAfterId);
    for (const { bootId, firstId, isUnset, records, ends, lineEnds } of runsOf(batch, from, through)) {
      assert.deepEqual([ends.length, ends[ends.length - 1]], [lineEnds.length, records.length]);
      const { entries } = lineside.v1.UpstreamBatch.decode(records);
      const bytes = entries.map(({ entry }) => entry?.rawData.length ?? 0);
      for (const [n, entry] of entries.entries()) {
        assert.equal(Number(entry.id), firstId + n);
        assert.equal(
          lineEnds[n],
          bytes.slice(0, n + 1).reduce((a, b) => a + b),
        );
        if (isUnset) assert.notEqual(entry.clock, lineside.v1.EntryClock.ENTRY_CLOCK_KNOWN);
        all.push([bootId, entry.toJSON()]);
      }
    }
    from = through;
  }
  return all;
}

class Boot {
  bootId = 'a';
  offset = 1_700_000_000_000;
  #state: TimeState = 'unsynced';
  #changed = (): void => {};

  state(): TimeState {
    return this.#state;
  }
  offsetMs(): number {
    return this.offset;
  }
  onChange(call: () => void): void {
    this.#changed = call;
  }
  become(state: TimeState, offset: number): void {
    this.#state = state;
    this.offset = offset;
    this.#changed();
  }
}

async function filled(t: TestContext): Promise<SerialLog> {
  const random = seeded(3);
  const dir = temporaryDirectory(t);
  const boot = new Boot();
  const some = (): NewEntry => {
    const bytes = random.between(1, 50) === 1 ? random.between(60_000, 200_000) : random.between(0, 300);
    const given = random.between(1, 10) === 1;
    const large = [0, 127, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1, 2n ** 53n + 1n, 2n ** 64n - 1n][random.between(0, 6)];
    return newEntry('', {
      data: Buffer.alloc(bytes, 'sentence '),
      dir: random.between(1, 2) === 1 ? 1 : 0,
      timestampMs: given ? (large ?? 0) : boot.offset + random.between(0, 1_000_000),
      note: random.between(1, 5) === 1 ? 'п\u0000 note' : '',
      ...(given && { timeGiven: true }),
    });
  };
  let log = await openLog(t, dir, { time: boot, maxBytes: 64 * MiB });
  const steps: readonly [TimeState, number][] = [
    ['unsynced', 1_700_000_000_000],
    ['unknown', 1_750_000_000_000],
    ['synced', 1_800_000_000_000],
    ['unsynced', 1_600_000_000_000],
  ];
  for (const [n, [state, offset]] of steps.entries()) {
    if (n === 3) {
      await log.close();
      boot.bootId = 'b';
    }
    boot.become(state, offset);
    if (n === 3) log = await openLog(t, dir, { time: boot, maxBytes: 64 * MiB });
    for (let portion = 0; portion < 4; portion++) {
      const entries = Array.from({ length: random.between(1, 700) }, some);
      for (const { dir: way, timestampMs, data, note } of entries.filter(({ timeGiven }) => timeGiven !== true))
        log.record(way, Number(timestampMs), data, note);
      await Promise.all(entries.filter(({ timeGiven }) => timeGiven === true).map((entry) => log.store(entry)));
      await log.store(some());
    }
  }
  return log;
}

test('from any id, with every kind of stamp, time and size', async (t) => {
  const log = await filled(t);
  const { lastId } = await log.status();
  const all = await asEncoded(log, 0);
  assert.equal(all.length, lastId);
  const kinds = new Set(
    all.map((one) => JSON.stringify([(one as [string])[0], (one as [0, { clock?: string }])[1].clock])),
  );
  assert.ok(kinds.size >= 5, [...kinds].join());
  for (const after of [0, 1, 99, 700, 1_001, lastId - 1, lastId])
    assert.deepEqual(await asStored(log, after), all.slice(after));
});

test('a reader of what is stored ends when another file takes the place of the log: the rest is not of this log', async (t) => {
  const dir = temporaryDirectory(t);
  const log = await openLog(t, dir);
  for (let i = 0; i < 200; i++) log.record(1, i, Buffer.alloc(4_000, `${i}`));
  await log.store(newEntry('last'));
  const { logId } = log;
  const reader = iteratorOf(log, { storedOnly: true, asStored: true });
  assert.ok(((await reader.next()).value?.stored?.batch.blocks.length ?? 0) > 0);
  for (const name of readdirSync(dir).filter((one) => one.startsWith('log.db'))) rmSync(join(dir, name));
  await until('a new log is begun', async () => {
    await log.store(newEntry('of the new log')).catch(() => {});
    return log.logId !== logId;
  });
  assert.deepEqual(await reader.next(), { done: true, value: undefined });
});
