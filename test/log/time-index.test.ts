/** Time filters on a log of very many blocks: the place is found by the index, whatever the clocks did. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import Database from 'better-sqlite3';
import type { ReadRequest } from '../../src/line/log/log-api.ts';
import { pack } from '../../src/line/log/packed.ts';
import { openSerialLog, type SerialLog } from '../../src/line/log/serial-log.ts';
import { FakeClock } from '../../src/shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../../src/shared/base/logger.fixture.ts';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { everything, idsOf, newEntry, openLog, optionsFor, readAll } from './support.ts';

/** One entry each: what single LogRaw calls, or a sentence a second, make in days. */
const blocks = Number(process.env.LINESIDE_TEST_BLOCKS ?? 200_000);
const hourMs = 3_600_000;
const baseMs = 1_700_000_000_000;
/** Of the CPU that the first entry may take; a scan of these blocks takes several times as much. */
const mostCpuMs = 100;

/** The clock steps back by an hour now and then, and entry 1,000 of each 50,000 bears a time of its caller's. */
function stampOf(id: number): number {
  if (id % 50_000 === 1_000) return baseMs - 5 * hourMs;
  return baseMs + 1_000 * id - hourMs * Math.floor(id / 20_000);
}

/** Written by hand: a commit each would take minutes. */
async function filled(t: TestContext, dir: string, changes: Parameters<typeof openLog>[2] = {}): Promise<SerialLog> {
  const empty = await openLog(t, dir);
  await empty.close();
  const file = new Database(join(dir, 'log.db'));
  const insert = file.prepare('INSERT INTO blocks VALUES (?, 1, 0, 0, ?)');
  const given = file.prepare('INSERT INTO given_times VALUES (?, ?)');
  file.transaction(() => {
    for (let id = 1; id <= blocks; id++) {
      const { buffer } = pack([{ id, dir: 1, timestampMs: stampOf(id), data: Buffer.from('x'), note: '' }]);
      insert.run(id, Buffer.from(buffer, 0, 18));
      if (id % 50_000 === 1_000) given.run(id, Buffer.from([1]));
    }
    file.prepare("UPDATE meta SET value = ? WHERE key IN ('ceiling_id', 'clock_ceiling_id')").run(blocks);
  })();
  file.close();
  return openLog(t, dir, changes);
}

async function firstOf(log: SerialLog, request: Partial<ReadRequest>): Promise<{ id: number; cpuMs: number }> {
  const before = process.cpuUsage();
  const end = new AbortController();
  try {
    for await (const { entries } of log.read({ ...everything, ...request }, end.signal)) {
      const [entry] = entries;
      if (entry === undefined) continue;
      const { user, system } = process.cpuUsage(before);
      return { id: entry.id, cpuMs: (user + system) / 1_000 };
    }
  } finally {
    end.abort();
  }
  const { user, system } = process.cpuUsage(before);
  return { id: 0, cpuMs: (user + system) / 1_000 };
}

function expectedFirst(sinceMs: number, untilMs: number): number {
  for (let id = 1; id <= blocks; id++) if (stampOf(id) >= sinceMs && stampOf(id) < untilMs) return id;
  return 0;
}

test('the first entry of any time range is found without a scan, after clock steps and beside times that callers gave', async (t) => {
  const dir = temporaryDirectory(t);
  const clock = new FakeClock();
  const log = await filled(t, dir, { clock });
  const reader = new Database(join(dir, 'log.db'), { readonly: true });
  t.after(() => reader.close());
  const indexed = reader.prepare('SELECT max(last_id) FROM time_ranges').pluck();
  // An earlier version knew no index: it is made after the start, in steps.
  clock.advance(60_000);
  await until('the index is complete', () => Number(indexed.get()) > blocks - 64, 600_000);
  const newest = stampOf(blocks);
  const ranges: readonly (readonly [number, number])[] = [
    [newest - 600_000, Number.MAX_SAFE_INTEGER],
    [stampOf(Math.floor(blocks / 2)), stampOf(Math.floor(blocks / 2)) + 1],
    [baseMs - 6 * hourMs, baseMs - 4 * hourMs],
    [0, stampOf(30_000)],
    [baseMs + 10_000 * hourMs, Number.MAX_SAFE_INTEGER],
    [1, 1_000],
  ];
  await firstOf(log, { sinceMs: 1, untilMs: 2 });
  for (const [sinceMs, untilMs] of ranges) {
    const { id, cpuMs } = await firstOf(log, { sinceMs, untilMs });
    t.diagnostic(`${sinceMs} to ${untilMs}: entry ${id}, ${cpuMs.toFixed(0)} ms of CPU`);
    assert.equal(id, expectedFirst(sinceMs, untilMs));
    assert.ok(cpuMs < mostCpuMs, `${cpuMs} ms of CPU`);
  }
});

test('the index finds the same entries as a scan, also after a restart, retention and an earlier version in between', async (t) => {
  const dir = temporaryDirectory(t);
  const log = await openLog(t, dir);
  const all: { id: number; ms: number }[] = [];
  const add = async (to: SerialLog, count: number): Promise<void> => {
    for (let i = 0; i < count; i++) {
      const ms = baseMs + ((all.length * 7_919) % 5_000) * 1_000;
      const { id } = await to.store(newEntry('x', { timestampMs: ms, ...(i % 3 === 0 && { timeGiven: true }) }));
      all.push({ id, ms });
    }
  };
  const agrees = async (with_: SerialLog): Promise<void> => {
    for (const [since, span] of [
      [0, 10],
      [1_234, 1],
      [2_500, 2_000],
      [4_990, 100],
    ] as const) {
      const sinceMs = baseMs + since * 1_000;
      const untilMs = sinceMs + span * 1_000;
      const found = idsOf((await readAll(with_, { sinceMs, untilMs })).entries);
      const wanted = all.filter(({ ms }) => ms >= sinceMs && ms < untilMs).map(({ id }) => id);
      assert.deepEqual(found, wanted);
    }
  };
  await add(log, 300);
  await agrees(log);
  await log.close();
  const again = await openLog(t, dir);
  await add(again, 200);
  await agrees(again);
  await again.close();
  // As an earlier version leaves it: entries that no row stands for.
  const file = new Database(join(dir, 'log.db'));
  file.exec('DELETE FROM time_ranges WHERE first_id > 100');
  file.close();
  const last = await openLog(t, dir);
  await agrees(last);
  await add(last, 100);
  await agrees(last);
});

test('a commit, or a step of the index, that fails on a full disk hides no entry from a time filter', async (t) => {
  const dir = temporaryDirectory(t);
  const { logger, lines } = recordingLogger();
  const options = optionsFor(dir, { tailBytes: 1, logger });
  const log = await openSerialLog(options);
  t.after(() => log.close());
  const other = new Database(join(dir, 'log.db'));
  t.after(() => other.close());
  const stored: number[] = [];
  const add = async (count: number): Promise<void> => {
    for (let i = 0; i < count; i++) stored.push((await log.store(newEntry('x', { timestampMs: baseMs }))).id);
  };
  const hidden = async (): Promise<number[]> => {
    const found = new Set(idsOf((await readAll(log, { sinceMs: baseMs })).entries));
    return stored.filter((id) => !found.has(id));
  };
  const full = "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END";
  await add(63);
  // The row for 64 commits is written, and what comes after it in the transaction is not.
  other.exec(`CREATE TRIGGER full AFTER INSERT ON blocks WHEN (SELECT count(*) FROM time_ranges) > 0 ${full}`);
  await assert.rejects(add(1));
  assert.deepEqual(await hidden(), []);
  other.exec('DROP TRIGGER full');
  await until('state === ok', async () => (await log.status()).state === 'ok');
  await add(137);
  // Of the rows that are missing by now the first is written, the second is not.
  other.exec(`CREATE TRIGGER full AFTER INSERT ON time_ranges WHEN (SELECT count(*) FROM time_ranges) > 1 ${full}`);
  log.limit(options);
  await until('the failure is logged', () =>
    lines.some((line) => line.includes('old log entries could not be removed')),
  );
  other.exec('DROP TRIGGER full');
  await add(64);
  assert.deepEqual(await hidden(), []);
});
