/** Searches of the stored log: what they find, where they resume, and that the line's own work comes first. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { LogSearch, type SearchPart, type SearchRequest } from '../../src/line/log/log-search.ts';
import type { SearchMatch } from '../../src/line/log/search/search-job.ts';
import type { SerialLog } from '../../src/line/log/serial-log.ts';
import { FakeClock } from '../../src/shared/base/fake-clock.fixture.ts';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import { MiB, newEntry, openLog } from './support.ts';

type Asked = Partial<Omit<SearchRequest, 'pattern'>> & { readonly text?: string; readonly regex?: string };

function requestFor({ text, regex, ...rest }: Asked): SearchRequest {
  const [kind, value] = regex === undefined ? (['text', text ?? ''] as const) : (['regex', regex] as const);
  return { pattern: { kind, value, ignoreCase: false }, after: 0, limit: 1_000, ...rest };
}

async function search(log: SerialLog, asked: Asked) {
  const parts: SearchPart[] = [];
  for await (const part of log.searches.search(requestFor(asked), never)) parts.push(part);
  const last = parts.at(-1);
  assert.ok(last?.end !== undefined);
  return { ...last, end: last.end, matches: parts.flatMap(({ matches }) => matches) };
}

/** The matches of all pages, each of which has at least its limit. */
async function inPages(log: SerialLog, asked: Asked & { readonly limit: number }): Promise<SearchMatch[]> {
  const matches = [];
  for (let after = 0; ; ) {
    const page = await search(log, { ...asked, after });
    matches.push(...page.matches);
    if (page.end.reason === 'complete') return matches;
    assert.ok(page.matches.length >= asked.limit && page.throughId > after, `${page.matches.length} after ${after}`);
    after = page.throughId;
  }
}

/** A match in some of the entries, or the begin of one. */
function noise(i: number): Buffer {
  return Buffer.from(['needle', 'nee', 'needles', 'dle', 's'][i % 5] ?? '');
}

const never = new AbortController().signal;

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
  assert.deepEqual(await inPages(log, { text: 'needle', limit: 97 }), whole.matches);
});

test('of a search that ends at any step, all matches up to its cursor have come, and none behind it, though matches wait for what follows', async (t) => {
  const log = await stored(t);
  // Parts of 2 MiB are read at once; the last matches of a direction wait for bytes that follow.
  for (let i = 0; i < 1_200; i++) {
    const isTx = i % 10 === 0;
    log.record(isTx ? 0 : 1, t0 + i, isTx ? Buffer.from('needle') : Buffer.concat([randomBytes(4_096), noise(i)]));
  }
  for (let i = 0; i < 20_000; i++) log.record(1, t0 + i, Buffer.from('.'));
  for (let i = 0; i < 600; i++) log.record(1, t0 + i, Buffer.concat([randomBytes(4_096), noise(i)]));
  await log.store(newEntry('end'));
  const whole = await search(log, { regex: 'needles*', limit: 1_000_000 });
  const ends: number[] = [];
  let come: SearchMatch[] = [];
  for await (const part of log.searches.search(requestFor({ regex: 'needles*', limit: 1_000_000 }), never)) {
    come = [...come, ...part.matches];
    ends.push(part.throughId);
    assert.deepEqual(
      come,
      whole.matches.filter(({ throughId }) => throughId <= part.throughId),
    );
  }
  assert.ok(ends.length > 3, `${ends.length} steps`);
  assert.ok(
    ends.some((id) => id > 20_000 && id < (ends.at(-1) ?? 0)),
    `a silent direction holds the cursor: ${ends.join()}`,
  );
  const pages = await inPages(log, { regex: 'needles*', limit: 7 });
  assert.deepEqual(pages, whole.matches);
});

test('a match of which a page ends in the middle is found by the next page, though 4,000 entries lie between its ends', async (t) => {
  const log = await stored(t);
  await log.store(newEntry('nee', { dir: 0 }));
  // Blocks of one entry, and large ones.
  for (let i = 0; i < 100; i++) await log.store(newEntry('.'));
  for (let i = 0; i < 3_800; i++) log.record(1, t0 + i, randomBytes(256));
  await log.store(newEntry('dle', { dir: 0 }));
  const { lastId } = await log.status();
  for (const asked of [{ text: 'needle' }, { regex: 'nee.*dle' }]) {
    const { matches } = await search(log, { ...asked, after: lastId - 1 });
    assert.deepEqual(
      matches.map(({ entryId, throughId }) => [entryId, throughId]),
      [[1, lastId]],
    );
  }
});

test('a page has all matches of the entry that its last one ends in', async (t) => {
  const log = await stored(t);
  for (let i = 0; i < 3; i++) log.record(1, t0 + i, Buffer.from('ab ab ab ab'));
  await log.store(newEntry('end'));
  assert.equal((await inPages(log, { text: 'ab', limit: 1 })).length, 12);
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

test('a search waits between two steps while the log is behind, and ends after 60 s with the place to resume at', async (t) => {
  const dir = temporaryDirectory(t);
  const log = await stored(t, dir);
  for (let i = 0; i < 2_000; i++) log.record(1, t0 + i, randomBytes(4_096));
  await log.store(newEntry('needle'));
  const { logId, lastId } = await log.status();
  const clock = new FakeClock();
  let isBehind = false;
  const searches = new LogSearch({ dir, clock, logId: () => logId, lastId: () => lastId, isBehind: () => isBehind });
  t.after(() => searches.close());
  const parts = searches.search(requestFor({ text: 'needle' }), never);
  await parts.next();
  const first = await parts.next();
  assert.ok(first.value !== undefined && first.value.throughId > 0 && first.value.end === undefined);
  isBehind = true;
  const next: SearchPart[] = [];
  const arriving = parts.next().then(({ value }) => next.push(...(value === undefined ? [] : [value])));
  await clock.pass(59_900);
  assert.deepEqual(next, [], 'no step while the log is behind');
  await clock.pass(200);
  await arriving;
  assert.deepEqual(next, [{ ...first.value, end: { reason: 'time', error: '' } }]);
  await parts.return();
  isBehind = false;
  const resumed = searches.search(requestFor({ text: 'needle', after: first.value.throughId }), never);
  const found = [];
  for await (const { matches } of resumed) found.push(...matches);
  assert.deepEqual(
    found.map(({ entryId }) => entryId),
    [lastId],
  );
});

test('the log is behind while more than a commit takes waits for the card', async (t) => {
  const log = await stored(t);
  await log.store(newEntry('needle'));
  await search(log, { text: 'needle' });
  const data = randomBytes(4_096);
  for (let sent = 0; sent < 7 * MiB; sent += data.length) log.record(1, t0, data);
  const parts = log.searches.search(requestFor({ text: 'needle' }), never);
  await parts.next();
  await parts.next();
  const { pendingEntries } = await log.status();
  assert.ok(pendingEntries * data.length <= MiB, `${pendingEntries} entries wait beside a step of the search`);
  await parts.return();
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
