/** The serial log on a real file: what is stored, what is read, what survives. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { test } from 'node:test';
import type { Worker } from 'node:worker_threads';
import { FakeClock } from '../../src/shared/base/fake-clock.fixture.ts';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import { until, within } from '../../src/shared/base/wait.fixture.ts';
import {
  everything,
  idsOf,
  iteratorOf,
  MiB,
  newEntry,
  nextTexts,
  openLog,
  optionsFor,
  readAll,
  textsOf,
} from './support.ts';

test('a stored entry comes back as it was given, exact to 2^64 - 1', async (t) => {
  const log = await openLog(t, temporaryDirectory(t));
  const times = [0, 2 ** 53 - 1, 2n ** 53n + 1n, 2n ** 64n - 1n];
  for (const [i, timestampMs] of times.entries()) {
    const stored = await log.store(
      newEntry(`e${i}`, { timestampMs, note: i % 2 ? 'п\u0000 note' : '', dir: i % 2 ? 1 : 0 }),
    );
    assert.equal(stored.id, i + 1);
  }
  const { entries } = await readAll(log);
  assert.deepEqual(
    entries.map((e) => String(e.timestampMs)),
    times.map(String),
  );
  assert.deepEqual(textsOf(entries), ['e0', 'e1', 'e2', 'e3']);
  assert.deepEqual(
    entries.map((e) => e.note),
    ['', 'п\u0000 note', '', 'п\u0000 note'],
  );
  assert.equal(typeof entries[1]?.timestampMs, 'number');
});

test('empty data, one megabyte and a thousand small entries share one order', async (t) => {
  const dir = temporaryDirectory(t);
  const log = await openLog(t, dir, { tailBytes: 1 });
  const big = Buffer.alloc(1024 * 1024, 'x');
  log.record(0, 1, Buffer.alloc(0));
  log.record(1, 2, big);
  for (let i = 0; i < 1000; i++) log.record(i % 2 === 0 ? 0 : 1, 3 + i, Buffer.from(String(i)));
  await log.store(newEntry('end'));
  const { entries } = await readAll(log);
  assert.equal(entries.length, 1003);
  assert.deepEqual(
    idsOf(entries),
    Array.from({ length: 1003 }, (_, i) => i + 1),
  );
  assert.ok(Buffer.from(entries[1]?.data ?? []).equals(big));
  assert.equal(Buffer.from(entries[1001]?.data ?? []).toString(), '999');
});

test('filters apply to stored and live entries alike', async (t) => {
  const log = await openLog(t, temporaryDirectory(t), { tailBytes: 4_000 });
  const huge = 2n ** 64n - 1n;
  for (let i = 1; i <= 100; i++) log.record(i % 2 === 0 ? 0 : 1, i * 10, Buffer.from('x'));
  await log.store(newEntry('far', { timestampMs: huge, dir: 0 }));
  const ids = async (request: Parameters<typeof readAll>[1]): Promise<number[]> =>
    idsOf((await readAll(log, request)).entries);
  assert.deepEqual(await ids({ sinceMs: 500, untilMs: 531 }), [50, 51, 52, 53]);
  assert.deepEqual(await ids({ sinceMs: 970, dir: 0 }), [98, 100, 101]);
  assert.deepEqual(await ids({ sinceMs: 2n ** 63n }), [101]);
  assert.deepEqual(await ids({ sinceMs: 2n ** 63n, untilMs: huge }), []);
  assert.deepEqual(await ids({ untilMs: 30, limit: 1 }), [1]);
  assert.deepEqual(await ids({ dir: 1, limit: 3, after: 90 }), [91, 93, 95]);
  assert.deepEqual(await ids({ after: 'last', limit: 3 }), [99, 100, 101]);
  assert.deepEqual(await ids({ after: 'last', limit: 90, dir: 0, untilMs: 160 }), [12, 14]);
  assert.equal((await ids({ after: 'last', limit: 1_000 })).length, 101);
});

test('the last entries include those that are not committed yet', async (t) => {
  const log = await openLog(t, temporaryDirectory(t), { tailBytes: 1_000, commitMs: 60_000 });
  for (let i = 1; i <= 20; i++) log.record(1, i, Buffer.from('stored'));
  await log.store(newEntry('21'));
  for (let i = 22; i <= 30; i++) log.record(1, i, Buffer.from('pending'));
  const reader = iteratorOf(log, { after: 'last', limit: 12, follow: true });
  const ids: number[] = [];
  const reading = (async () => {
    while (ids.length < 13) ids.push(...idsOf((await reader.next()).value?.entries ?? []));
  })();
  await log.store(newEntry('31'));
  await reading;
  assert.deepEqual(ids, [19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31]);
  await reader.return?.();
});

test('a reader stands from the call on, and ends with its signal or its return', async (t) => {
  const log = await openLog(t, temporaryDirectory(t));
  log.record(1, 1, Buffer.from('before'));
  const control = new AbortController();
  const live = iteratorOf(log, { after: 'live', follow: true }, control.signal);
  log.record(1, 2, Buffer.from('after'));
  assert.deepEqual(await nextTexts(live), ['after']);
  assert.equal(log.readers, 1);
  const waiting = live.next();
  control.abort();
  assert.equal((await waiting).done, true);
  const other = iteratorOf(log, { after: 'live', follow: true });
  const alsoWaiting = other.next();
  await other.return?.();
  assert.equal((await alsoWaiting).done, true);
  assert.equal(log.readers, 0);
  assert.equal((await iteratorOf(log, { follow: true }, AbortSignal.abort()).next()).done, true);
});

test('close stores what is pending and ends readers after what they were still to get', async (t) => {
  const dir = temporaryDirectory(t);
  const log = await openLog(t, dir, { commitMs: 60_000 });
  const seen: string[] = [];
  const reading = (async () => {
    for await (const run of log.read({ ...everything, after: 'live', follow: true }, new AbortController().signal)) {
      seen.push(...textsOf(run.entries));
    }
  })();
  const idle = iteratorOf(log, { after: 'live', follow: true });
  for (let i = 0; i < 5; i++) log.record(1, i, Buffer.from(String(i)));
  const closing = log.close();
  await assert.rejects(reading, { code: 'SHUTTING_DOWN' });
  await closing;
  await assert.rejects(
    async () => {
      for (;;) await idle.next();
    },
    { code: 'SHUTTING_DOWN' },
  );
  assert.deepEqual(seen, ['0', '1', '2', '3', '4']);
  await assert.rejects(log.store(newEntry('late')), { code: 'LOG_NOT_STORED' });
  assert.equal((await readAll(await openLog(t, dir))).entries.length, 5);
});

test('the status shows what is stored and pending', async (t) => {
  const log = await openLog(t, temporaryDirectory(t), { commitMs: 60_000 });
  await log.store(newEntry('one'));
  log.record(1, 1, Buffer.from('two'));
  const status = await log.status();
  assert.equal(status.state, 'ok');
  assert.deepEqual([status.firstId, status.lastId, status.headId, status.pendingEntries], [1, 1, 2, 1]);
  assert.ok(status.usedBytes > 0 && status.fileBytes >= status.usedBytes);
  await until('commits === 1', async () => (await log.status()).commits === 1);
});

test('a reader of what is stored gets no entry before its commit, and is notified of what retention removed from the start', async (t) => {
  const log = await openLog(t, temporaryDirectory(t), { maxBytes: MiB, commitMs: 1_000, tailBytes: MiB });
  log.record(1, 1, Buffer.from('in flight'));
  const stored = { storedOnly: true };
  assert.deepEqual(idsOf((await readAll(log)).entries), [1]);
  assert.deepEqual(idsOf((await readAll(log, stored)).entries), []);
  await log.store(newEntry('2'));
  log.record(1, 3, Buffer.from('in flight'));
  assert.deepEqual(idsOf((await readAll(log, stored)).entries), [1, 2]);
  assert.deepEqual(idsOf((await readAll(log, { ...stored, after: 1 })).entries), [2]);
  await until('a new worker answers', async () => {
    for (let i = 0; i < 50; i++) log.record(1, i, randomBytes(4096));
    await log.store(newEntry('more'));
    return (await log.status()).prunedEntries > 0;
  });
  await assert.rejects(readAll(log, stored), { code: 'LOG_LOST', message: /^DATA_LOSS: \d+ entries \(ids 1 to / });
  const { firstId, lastId } = await log.status();
  const { entries } = await readAll(log, { ...stored, after: firstId - 1 });
  assert.deepEqual([entries[0]?.id, entries.at(-1)?.id], [firstId, lastId]);
});

test('readers of large entries that never come back make others of their kind wait, and none that reads small entries', async (t) => {
  const log = await openLog(t, temporaryDirectory(t), { tailBytes: 1 });
  for (let i = 0; i < 12; i++) await log.store(newEntry('', { data: randomBytes(MiB) }));
  for (let i = 0; i < 300; i++) log.record(1, 1, Buffer.from('x'));
  await log.store(newEntry('last'));
  const lazy = Array.from({ length: 12 }, () => iteratorOf(log, {}));
  const pages = lazy.map((reader) => reader.next());
  let served = 0;
  for (const page of pages) void page.then(() => served++);
  await until('served >= 4', () => served >= 4);
  const small = await within('the small entries', readAll(log, { after: 12 }));
  assert.equal(small.entries.length, 301);
  assert.ok(served < lazy.length, 'some of them wait');
  for (const reader of lazy) void reader.return?.();
  assert.equal((await within('the large ones', readAll(log))).entries.length, 313);
});

test('a smaller limit of the log counts at once, a shorter commit from the next entry on', async (t) => {
  const clock = new FakeClock();
  const options = optionsFor(temporaryDirectory(t), { clock, commitMs: 60_000 });
  const log = await openLog(t, options.dir, options);
  for (let i = 0; i < 20; i++) await log.store(newEntry('', { data: Buffer.alloc(MiB / 4, i) }));
  const before = await log.status();
  assert.equal(before.firstId, 1);
  log.limit({ ...options, maxBytes: 2 * MiB, commitMs: 50 });
  await until('firstId > 1', async () => (await log.status()).firstId > 1);
  await until('usedBytes <= 2 * MiB', async () => (await log.status()).usedBytes <= 2 * MiB);
  assert.equal((await log.status()).maxBytes, 2 * MiB);
  const { commits } = await log.status();
  log.record(1, 0, Buffer.from('x'));
  clock.advance(60);
  await until('one more commit', async () => (await log.status()).commits > commits);
});

test('the worker answers behind what it does; one that has died is started again', async (t) => {
  const workers: Worker[] = [];
  const started = (message: unknown): void => void workers.push((message as { worker: Worker }).worker);
  subscribe('worker_threads', started);
  t.after(() => unsubscribe('worker_threads', started));
  const log = await openLog(t, temporaryDirectory(t));
  await log.answers();
  await workers[0]?.terminate();
  await assert.rejects(log.answers(), { code: 'WORKER_EXITED' });
  await until('the limits hold', async () =>
    log.answers().then(
      () => true,
      () => false,
    ),
  );
  assert.equal((await log.store(newEntry('kept all the same'))).id, 1);
  assert.equal(workers.length, 2);
});
