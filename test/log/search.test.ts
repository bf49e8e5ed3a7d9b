/** Searches of the stored log: what they find, where they resume, and that the line's own work comes first. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { SearchPart, SearchRequest } from '../../src/line/log/log-search.ts';
import type { SerialLog } from '../../src/line/log/serial-log.ts';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { MiB, newEntry, openLog } from './support.ts';

type Asked = Partial<Omit<SearchRequest, 'pattern'>> & { readonly text?: string; readonly regex?: string };

function requestFor({ text, regex, ...rest }: Asked): SearchRequest {
  const [kind, value] = regex === undefined ? (['text', text ?? ''] as const) : (['regex', regex] as const);
  return { pattern: { kind, value, ignoreCase: false }, after: 0, limit: 1_000, ...rest };
}

async function search(log: SerialLog, asked: Asked) {
  const parts: SearchPart[] = [];
  for await (const part of log.searches.search(requestFor(asked), new AbortController().signal)) parts.push(part);
  const last = parts.at(-1);
  assert.ok(last?.end !== undefined);
  return { ...last, end: last.end, matches: parts.flatMap(({ matches }) => matches) };
}

async function stored(t: TestContext, dir = temporaryDirectory(t)): Promise<SerialLog> {
  return await openLog(t, dir, { maxBytes: 256 * MiB });
}

const t0 = 1_700_000_000_000;

test('a match may lie in several entries of one direction, whatever the other does in between; filters of direction, time and place hold', async (t) => {
  const log = await stored(t);
  const send = [
    [1, 'an ERR'],
    [0, 'poll OR'],
    [1, 'OR of the pump'],
    [0, 'ERROR'],
    [1, 'ERROR again'],
  ] as const;
  // As blocks of one entry, and as a block of all.
  for (const [i, [dir, text]] of send.entries()) await log.store(newEntry(text, { dir, timestampMs: t0 + i }));
  for (const [i, [dir, text]] of send.entries())
    log.record(dir, t0 + 100 + i, Buffer.from(text), i === 0 ? 'ERROR' : '');
  await log.store(newEntry('end', { timestampMs: t0 + 200 }));
  const places = async (asked: Asked) =>
    (await search(log, asked)).matches.map(({ entryId, offset, throughId, dir }) => [entryId, offset, throughId, dir]);
  const all = [
    [1, 3, 3, 1],
    [4, 0, 4, 0],
    [5, 0, 5, 1],
    [6, 3, 8, 1],
    [9, 0, 9, 0],
    [10, 0, 10, 1],
  ];
  assert.deepEqual(await places({ text: 'ERROR' }), all, 'notes are not searched');
  assert.deepEqual(await places({ regex: 'E[R]+OR' }), all);
  assert.deepEqual(await places({ text: 'ERROR', dir: 0 }), [all[1], all[4]]);
  assert.deepEqual(await places({ text: 'ERROR', sinceMs: t0 + 4, untilMs: t0 + 104 }), [all[2], all[3], all[4]]);
  assert.deepEqual(await places({ text: 'ERROR', sinceMs: t0 + 1, untilMs: t0 + 4 }), [all[1]], 'whole matches only');
  assert.deepEqual(await places({ text: 'ERROR', after: 2 }), all, 'what ends after it, though it begins before');
  assert.deepEqual(await places({ text: 'ERROR', after: 3 }), all.slice(1));
  assert.deepEqual(await places({ text: 'no such text' }), []);
  const times = (await search(log, { text: 'ERROR' })).matches.map(({ timestampMs }) => timestampMs);
  assert.deepEqual(times, [t0, t0 + 3, t0 + 4, t0 + 100, t0 + 103, t0 + 104]);
});

test('a page ends at its limit, and the next one resumes without a gap or repeat', async (t) => {
  const log = await stored(t);
  for (let i = 0; i < 3_000; i++)
    log.record(i % 3 === 0 ? 0 : 1, t0 + i, Buffer.from(i % 2 === 0 ? 'xx needle, nee' : 'dle'));
  await log.store(newEntry('end'));
  const whole = await search(log, { text: 'needle', limit: 1_000_000 });
  assert.equal(whole.end.reason, 'complete');
  assert.ok(whole.matches.length > 1_500, `${whole.matches.length}`);
  const pages = [];
  for (let after = 0, isEnd = false; !isEnd; ) {
    const page = await search(log, { text: 'needle', limit: 97, after });
    isEnd = page.end.reason === 'complete';
    assert.ok(page.matches.length <= 97 + 1 && (isEnd || page.matches.length >= 97), `${page.matches.length}`);
    after = page.throughId;
    pages.push(...page.matches);
  }
  assert.deepEqual(pages, whole.matches);
});

test('one search runs at a time; it ends when its caller leaves; a pattern with a fault is refused', async (t) => {
  const log = await stored(t);
  await log.store(newEntry('some text'));
  const controller = new AbortController();
  const running = log.searches.search(requestFor({ text: 'text' }), controller.signal);
  await running.next();
  await assert.rejects(search(log, { text: 'text' }), { code: 'TOO_MANY' });
  controller.abort();
  assert.deepEqual(await running.next(), { done: true, value: undefined });
  assert.equal((await search(log, { text: 'text' })).matches.length, 1);
  await assert.rejects(search(log, { regex: '(' }), { code: 'INVALID_ARGUMENT', message: /missing closing/ });
  assert.equal((await search(log, { text: 'text' })).matches.length, 1, 'the search before is over');
});

test('while a large log is searched again and again, a flood as fast as the card takes it loses no entry, and the write-ahead log stays small', async (t) => {
  const dir = temporaryDirectory(t);
  const log = await stored(t, dir);
  const data = randomBytes(4_096);
  /** Resolves when so many bytes are stored. */
  const flood = async (bytes: number, after: () => void): Promise<void> => {
    for (let sent = 0; sent < bytes; sent += data.length) {
      log.record(1, t0 + sent, data);
      if (!log.pressed) continue;
      await new Promise<void>((resolve) => log.onRelieved(resolve));
      after();
    }
    await until('all is stored', async () => (await log.status()).pendingEntries === 0, 60_000);
  };
  await flood(32 * MiB, () => {});
  let isFlooding = true;
  let largestWal = 0;
  let searches = 0;
  let searchedBytes = 0;
  const searching = (async () => {
    const { signal } = new AbortController();
    while (isFlooding) {
      let before = 0;
      for await (const part of log.searches.search(requestFor({ text: 'no such text' }), signal)) {
        assert.notEqual(part.end?.reason, 'failed', part.end?.error);
        searchedBytes += part.bytes - before;
        before = part.bytes;
        if (!isFlooding) break;
      }
      searches++;
    }
  })();
  await flood(96 * MiB, () => {
    largestWal = Math.max(largestWal, statSync(join(dir, 'log.db-wal')).size);
  });
  isFlooding = false;
  await searching;
  const { lostEntries, headId, lastId, error } = await log.status();
  t.diagnostic(
    `${searches} searches, ${searchedBytes / MiB} MiB, write-ahead log ${(largestWal / MiB).toFixed(1)} MiB at most`,
  );
  assert.deepEqual({ lostEntries, lastId, error }, { lostEntries: 0, lastId: headId, error: '' });
  assert.ok(searchedBytes > 0, 'nothing was searched beside the flood');
  // 4 MiB, and what a few commits of 1 MiB add until the log begins again; at 12 MiB the log would refuse to grow.
  assert.ok(largestWal <= 12 * MiB, `${largestWal} bytes`);
});

test('the histogram counts the entries and bytes of a span by direction; of a long span it estimates them', async (t) => {
  const log = await stored(t);
  for (let i = 0; i < 1_000; i++) log.record(i % 4 === 0 ? 0 : 1, t0 + i, Buffer.alloc(i % 4 === 0 ? 3 : 10));
  await log.store(newEntry('', { timestampMs: t0 + 999 }));
  const made = await log.searches.histogram({ sinceMs: undefined, untilMs: undefined, buckets: 10 });
  assert.deepEqual([made.sinceMs, made.untilMs, made.isEstimate], [t0, t0 + 1_000, false]);
  assert.deepEqual(made.buckets[0], { txEntries: 25, rxEntries: 75, txBytes: 75, rxBytes: 750 });
  assert.deepEqual(made.buckets[9], { txEntries: 25, rxEntries: 76, txBytes: 75, rxBytes: 750 });
  const { buckets } = await log.searches.histogram({ sinceMs: t0 + 100, untilMs: t0 + 104, buckets: 2 });
  assert.deepEqual(
    buckets.map(({ txEntries, rxEntries }) => [txEntries, rxEntries]),
    [
      [1, 1],
      [0, 2],
    ],
  );
});
