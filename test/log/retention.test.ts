/** Retention by size and by age, and the readers it overtakes. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { cpSync, mkdtempSync, readdirSync, rmSync, statSync, watch, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import Database from 'better-sqlite3';
import type { SerialLog } from '../../src/line/log/serial-log.ts';
import type { LinesideError } from '../../src/shared/base/errors.ts';
import { FakeClock } from '../../src/shared/base/fake-clock.fixture.ts';
import { recordingLogger } from '../../src/shared/base/logger.fixture.ts';
import { mountSmall } from '../../src/shared/base/small-disk.fixture.ts';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { idsOf, iteratorOf, MiB, newEntry, nextTexts, openLog, optionsFor, readAll, textsOf } from './support.ts';

async function removedSoFar(log: SerialLog): Promise<number> {
  return (await log.status()).prunedEntries;
}

/** What decisions allow: a quarter, or 16 MiB where that is more. */
function boundOf(maxBytes: number): number {
  return maxBytes + Math.max(maxBytes / 4, 16 * MiB);
}

function sizeOnDisk(dir: string): number {
  const sizes = ['log.db', 'log.db-wal'].map((name) => statSync(join(dir, name), { throwIfNoEntry: false })?.size ?? 0);
  return sizes.reduce((sum, size) => sum + size, 0);
}

/** Entries as fast as the log takes them; the largest the files were. */
async function flood(log: SerialLog, dir: string, bytes: number, entryBytes: number): Promise<number> {
  const data = randomBytes(entryBytes);
  let largest = 0;
  for (let sent = 0; sent < bytes; sent += entryBytes) {
    log.record(1, sent, data);
    if (!log.pressed) continue;
    await new Promise<void>((resolve) => log.onRelieved(resolve));
    largest = Math.max(largest, sizeOnDisk(dir));
  }
  await until('pendingEntries === 0', async () => (await log.status()).pendingEntries === 0, 60_000);
  return Math.max(largest, sizeOnDisk(dir));
}

test('a flood as fast as the disk takes it keeps the log below max_bytes and the files below their bound; a new reader begins at the oldest entry', async (t) => {
  const dir = temporaryDirectory(t);
  const maxBytes = 4 * MiB;
  const log = await openLog(t, dir, { maxBytes });
  // Small entries first: what the large ones push out is then many small blocks.
  for (let i = 0; i < 2_000; i++) await log.store(newEntry(`small ${i}`));
  const largest = await flood(log, dir, 60 * MiB, 4_096);
  t.diagnostic(`${(largest / MiB).toFixed(1)} MiB at most`);
  assert.ok(largest <= boundOf(maxBytes), `${largest} bytes`);
  await until('usedBytes <= maxBytes', async () => (await log.status()).usedBytes <= maxBytes);
  const { entries } = await readAll(log);
  // A disk that stalls on a busy machine costs entries, counted.
  const { headId, firstId, prunedEntries, lostEntries, usedBytes } = await log.status();
  assert.equal(entries.length, headId - prunedEntries - lostEntries);
  assert.equal(entries[0]?.id, firstId);
  assert.ok(usedBytes > maxBytes / 2, `${usedBytes} is still used`);
});

test('a file that is too large for a lowered limit shrinks in small steps, beside commits and readers, and nothing is lost', async (t) => {
  const dir = temporaryDirectory(t);
  const log = await openLog(t, dir, { maxBytes: 64 * MiB });
  // A disk that stalls on a busy machine costs entries.
  for (let floods = 0; floods < 20 && sizeOnDisk(dir) <= 50 * MiB; floods++) await flood(log, dir, 20 * MiB, 4_096);
  const { logId } = log;
  const { lostEntries } = await log.status();
  assert.ok(sizeOnDisk(dir) > 50 * MiB);
  const follower = iteratorOf(log, { after: 'live', follow: true });
  log.limit({ maxBytes: 2 * MiB, maxAgeDays: 30, commitMs: 20 });
  const during: string[] = [];
  await until(
    'the file has room again',
    async () => {
      during.push(textsOf([await log.store(newEntry(`during ${during.length}`))])[0] ?? '');
      return sizeOnDisk(dir) <= boundOf(2 * MiB);
    },
    120_000,
  );
  assert.equal(log.logId, logId);
  const followed: string[] = [];
  while (followed.length < during.length) followed.push(...(await nextTexts(follower)));
  assert.deepEqual(followed, during);
  await follower.return?.();
  const { entries, gaps } = await readAll(log);
  const texts = textsOf(entries);
  assert.deepEqual(
    texts.filter((text) => text.startsWith('during')),
    during,
  );
  assert.ok((await log.status()).usedBytes > MiB, 'what the limit allows is kept');
  assert.equal((await log.status()).lostEntries, lostEntries);
  await log.close();
  assert.deepEqual(readdirSync(dir), ['log.db']);
  const again = await openLog(t, dir);
  assert.deepEqual(textsOf((await readAll(again)).entries), texts);
  assert.deepEqual((await readAll(again)).gaps, gaps);
});

/** Another program that has begun to read log.db. */
function otherReader(t: TestContext, dir: string): Database.Database {
  const reader = new Database(join(dir, 'log.db'), { readonly: true });
  t.after(() => reader.close());
  reader.exec('BEGIN');
  reader.prepare('SELECT count(*) FROM blocks').get();
  return reader;
}

test('while another program reads log.db, entries wait or are refused rather than that the files outgrow their bound', async (t) => {
  const dir = temporaryDirectory(t);
  const maxBytes = 4 * MiB;
  const log = await openLog(t, dir, { maxBytes, queueBytes: 64 * MiB });
  await log.store(newEntry('first'));
  const reader = otherReader(t, dir);
  const data = randomBytes(4_096);
  for (let i = 0; i < 10_000; i++) log.record(1, i, data);
  await until('state === failing', async () => (await log.status()).state === 'failing', 60_000);
  assert.match((await log.status()).error, /another program reads log\.db/);
  assert.ok(sizeOnDisk(dir) <= boundOf(maxBytes), `${sizeOnDisk(dir)} bytes`);
  reader.exec('COMMIT');
  await until('pendingEntries === 0', async () => (await log.status()).pendingEntries === 0, 60_000);
  assert.equal((await log.status()).lostEntries, 0);
});

test('a reader overtaken by retention is notified of the exact number of entries it lost; ids that were never used are none', async (t) => {
  const dir = temporaryDirectory(t);
  const killed = join(dir, 'killed');
  const first = await openLog(t, join(dir, 'a'));
  for (let i = 1; i < 5; i++) first.record(1, i, randomBytes(4096));
  await first.store(newEntry('5'));
  // The state after kill -9: the files as they are, without a close.
  cpSync(join(dir, 'a'), killed, { recursive: true });
  const log = await openLog(t, killed, { maxBytes: MiB, tailBytes: 10_000 });
  const next = await log.store(newEntry('after the kill'));
  assert.ok(next.id > 5, `${next.id} was not handed out before`);
  assert.deepEqual(idsOf((await readAll(log)).entries), [1, 2, 3, 4, 5, next.id]);
  const reader = iteratorOf(log, { after: 2, follow: true });
  while ((await removedSoFar(log)) < 20) {
    for (let i = 0; i < 20; i++) log.record(1, i, randomBytes(4096));
    await log.store(newEntry('more'));
  }
  const removed = await quiet(() => removedSoFar(log));
  const { firstId } = await log.status();
  const lost = `DATA_LOSS: ${removed - 2} entries (ids 3 to ${firstId - 1}) were removed by retention`;
  await assert.rejects(
    reader.next(),
    ({ code, message }: LinesideError) => code === 'LOG_LOST' && message.startsWith(lost),
  );
  assert.equal(log.readers, 0);
});

test('age is the time the service has run: a clock that jumps removes nothing, time that passes does', async (t) => {
  const clock = new FakeClock();
  const log = await openLog(t, temporaryDirectory(t), { clock, maxAgeDays: 2 });
  const day = 86_400_000;
  const aged = (removed: number) => async (): Promise<boolean> => {
    clock.advance(60_000);
    return (await removedSoFar(log)) === removed;
  };
  await log.store(newEntry('old'));
  clock.stepWall(3650 * day);
  clock.advance(day);
  await log.store(newEntry('a day later'));
  clock.stepWall(-7300 * day);
  assert.equal((await readAll(log)).entries.length, 2);
  clock.advance(day + 120_000);
  await until('1 entries aged', aged(1));
  assert.equal((await log.status()).firstId, 2);
  clock.advance(day);
  await until('2 entries aged', aged(2));
  assert.equal((await log.status()).firstId, 0);
});

/** Waits until a number is the same in ten looks. */
async function quiet(look: () => Promise<number>): Promise<number> {
  let last = await look();
  let same = 0;
  await until('the size rests', async () => {
    const now = await look();
    same = now === last ? same + 1 : 0;
    last = now;
    return same > 10;
  });
  return last;
}

test('without room for a copy log.db keeps its size and stores on; it shrinks when there is room', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'lineside-log-'));
  if (!mountSmall(t, dir, 'size=80m')) return;
  const { logger, lines } = recordingLogger();
  const options = optionsFor(dir, { maxBytes: 32 * MiB, logger });
  const log = await openLog(t, dir, options);
  for (let i = 0; i < 30; i++) await log.store(newEntry('', { data: randomBytes(MiB) }));
  const filler = join(dir, 'filler');
  writeFileSync(filler, Buffer.alloc(28 * MiB));
  const smaller = { ...options, maxBytes: 16 * MiB };
  log.limit(smaller);
  await until('usedBytes <= smaller.maxBytes', async () => (await log.status()).usedBytes <= smaller.maxBytes);
  for (let i = 0; i < 10; i++) await log.store(newEntry('', { data: randomBytes(MiB) }));
  assert.equal((await log.status()).state, 'ok');
  rmSync(filler);
  await until('the file is smaller', async () => {
    log.limit(smaller);
    return (await log.status()).fileBytes < 24 * MiB;
  });
  assert.deepEqual(lines, []);
});

test('while another program reads log.db no copy is begun that could not take its place', async (t) => {
  const dir = temporaryDirectory(t);
  const options = optionsFor(dir, { maxBytes: 32 * MiB });
  const log = await openLog(t, dir, options);
  for (let i = 0; i < 30; i++) await log.store(newEntry('', { data: randomBytes(MiB) }));
  const reader = otherReader(t, dir);
  const begun: string[] = [];
  const watcher = watch(dir, (_, name) => void begun.push(name ?? ''));
  t.after(() => watcher.close());
  const limits = { ...options, maxBytes: 16 * MiB };
  for (let i = 0; i < 5; i++) {
    log.limit(limits);
    await log.store(newEntry(`after ${i}`));
  }
  await until('usedBytes <= limits.maxBytes', async () => (await log.status()).usedBytes <= limits.maxBytes);
  log.limit(limits);
  await log.store(newEntry('last'));
  assert.deepEqual(
    begun.filter((name) => name.includes('smaller')),
    [],
  );
  reader.exec('COMMIT');
  await until('the file is smaller', async () => {
    log.limit(limits);
    return (await log.status()).fileBytes < 24 * MiB;
  });
});
