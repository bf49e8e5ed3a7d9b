/** Changes over HTTP under stress: writers that race, a bundle with one bad line among 50,000, a clock that steps back a year. */
import assert from 'node:assert/strict';
import { globSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { storedVersions } from '../soak/outbox-ledger.ts';
import { type Toml, temporaryDirectory } from './daemon.ts';
import { startHub } from './hub.ts';
import { HubApi, recordPath } from './hub-api.ts';
import { apiOf, close, create, dictionary, expect, items, outbox, refused, sendBundle, update } from './hub-support.ts';

const alone: Toml = { device: { inventory: false } };
const YEAR_MS = 365 * 86_400_000;
const RACERS = 16;
const BUNDLE = 50_000;
/** Beyond that a request beside an import would time out at impatient callers. */
const HOLD_LIMIT_MS = 1_000;

const ascending = (a: number, b: number): number => a - b;

test('writers race on one version: one of them wins each time, and no version is lost or doubled', async () => {
  const hub = await startHub({ config: alone });
  const apis = Array.from({ length: RACERS }, () => new HubApi(`unix:${hub.socket}`));
  const api = apiOf(hub);
  await dictionary(api, 'd');
  const created = await Promise.all(
    apis.map((one, i) => one.post('/api/v1/dictionaries/d/records', { businessKey: 'key', data: { i } })),
  );
  assert.deepEqual(created.map(({ status }) => status).sort(ascending), [201, ...Array<number>(RACERS - 1).fill(409)]);
  for (let version = 1; version <= 20; version++) {
    const answers = await Promise.all(
      apis.map((one, i) => {
        const body = { data: { version, i } };
        return one.send('PUT', recordPath('d', 'key'), { body, ifMatch: version });
      }),
    );
    assert.deepEqual(answers.map(({ status }) => status).sort(ascending), [
      200,
      ...Array<number>(RACERS - 1).fill(412),
    ]);
    const won = answers.findIndex(({ status }) => status === 200);
    const now = await expect(200, api.get(recordPath('d', 'key')));
    assert.deepEqual([now.version, now['data']], [version + 1, { version, i: won }]);
  }
  // Closing races with updating: one of them is first, and the other is told.
  const both = await Promise.all([
    api.post(`${recordPath('d', 'key')}/close`, {}, { ifMatch: 21 }),
    api.send('PUT', recordPath('d', 'key'), { body: { data: {} }, ifMatch: 21 }),
  ]);
  assert.equal(both.filter(({ status }) => status === 200).length, 1);
  assert.ok(both.some(({ status }) => status === 412 || status === 409));
  await refused(428, 'VERSION_REQUIRED', api.send('PUT', recordPath('d', 'key'), { body: { data: {} } }));
  const versions = storedVersions(join(hub.dir, 'data', 'refdata.db'));
  assert.deepEqual(
    versions.map(({ version }) => version),
    Array.from({ length: 22 }, (_, i) => i + 1),
  );
  for (const one of apis) one.close();
  assert.equal(await hub.stop(), 0);
});

test('one bad line in a bundle of 50,000: the answer names it, and nothing has changed; without it all is in', async (t) => {
  const hub = await startHub({ config: alone });
  const api = apiOf(hub);
  const schema = { type: 'object', properties: { i: { type: 'integer', maximum: BUNDLE } } };
  await dictionary(api, 'd', 'PUBLIC', { schema });
  await create(api, 'd', 'key 1', { i: 0 });
  const lines = items('d', BUNDLE, 1);
  const bad = lines.with(31_336, { dictionary: 'd', businessKey: 'bad', data: { i: 'nought' } });
  const path = join(hub.dir, 'data', 'refdata.db');

  const problem = await refused(422, 'INVALID_ARGUMENT', sendBundle(api, bad));
  assert.equal(problem.reasons?.length, 1, JSON.stringify(problem.reasons?.slice(0, 5)));
  assert.match(problem.reasons?.[0] ?? '', /\b31,?337\b/);
  assert.equal(storedVersions(path).length, 1);
  assert.equal((await outbox(api)).waiting, 1);
  const { items: listed } = await expect(200, api.get('/api/v1/dictionaries/d/records?limit=1000'));
  assert.equal(listed?.length, 1);

  const many = lines.map((line, i) => (i % 1_000 === 999 ? { ...line, data: 'no object' } : line));
  const all = await refused(422, 'INVALID_ARGUMENT', sendBundle(api, many));
  assert.equal(all.reasons?.length, BUNDLE / 1_000, 'every fault at once');
  assert.equal(storedVersions(path).length, 1);

  // Meanwhile others read, and writers wait for their turn.
  const imported = sendBundle(api, lines, 'alle');
  const longest = await slowestRead(api, imported);
  const result = await expect(200, imported);
  t.diagnostic(`slowest read beside the import: ${Math.round(longest)} ms`);
  assert.ok(longest < HOLD_LIMIT_MS, `a read took ${longest} ms`);
  assert.deepEqual([result['created'], result['updated'], result['unchanged']], [BUNDLE - 1, 1, 0]);
  const versions = storedVersions(path);
  assert.equal(versions.length, BUNDLE + 1);
  assert.equal(new Set(versions.map(({ txTime }) => txTime)).size, 2);
  assert.equal((await outbox(api)).waiting, BUNDLE + 1);
  const again = await expect(200, sendBundle(api, lines.slice(0, 1_000)));
  assert.deepEqual([again['created'], again['updated'], again['unchanged']], [0, 0, 1_000]);
  assert.equal(await hub.stop(), 0);
});

/** Milliseconds; until `over` has settled. */
async function slowestRead(api: HubApi, over: Promise<unknown>): Promise<number> {
  let [longest, done] = [0, false];
  over.finally(() => {
    done = true;
  });
  while (!done) {
    const asked = performance.now();
    await expect(200, api.get(recordPath('d', 'key 1')));
    longest = Math.max(longest, performance.now() - asked);
    await sleep(1);
  }
  return longest;
}

const [library] = globSync('/usr/lib/*/faketime/libfaketimeMT.so.1');

test('the clock steps back a year between two updates: txTime goes on, and reads find what was written last', {
  skip: library === undefined ? 'libfaketime is not installed' : false,
}, async () => {
  const dir = temporaryDirectory();
  const offset = join(dir, 'faketime');
  const jump = (by: string): void => {
    writeFileSync(`${offset}.new`, `${by}\n`);
    renameSync(`${offset}.new`, offset);
  };
  jump('+0');
  const env = {
    LD_PRELOAD: library ?? '',
    FAKETIME_TIMESTAMP_FILE: offset,
    FAKETIME_NO_CACHE: '1',
    FAKETIME_DONT_FAKE_MONOTONIC: '1',
    DONT_FAKE_MONOTONIC: '1',
  };
  const hub = await startHub({ dir, config: alone, env });
  const api = apiOf(hub);
  await dictionary(api, 'd');
  const first = await create(api, 'd', 'key', { n: 1 });
  jump('-1y');
  const second = await update(api, 'd', 'key', 1, { n: 2 });
  const other = await create(api, 'd', 'other', { n: 1 });
  const closed = await close(api, 'd', 'other', 1);
  jump('+2y');
  const third = await update(api, 'd', 'key', 2, { n: 3 });
  jump('-10y');
  const fourth = await update(api, 'd', 'key', 3, { n: 4 });
  const times = [first, second, other, closed, third, fourth].map(({ txTime = '' }) => txTime);
  assert.deepEqual([...new Set(times)].sort(), times, 'strictly increasing');
  const years = (later: unknown, earlier: unknown): number =>
    Math.round((Date.parse(String(later)) - Date.parse(String(earlier))) / YEAR_MS);
  assert.deepEqual(
    [years(second.txTime, first.txTime), years(third.txTime, first.txTime)],
    [0, 2],
    'the clock did jump',
  );

  const now = await expect(200, api.get(recordPath('d', 'key')));
  assert.deepEqual([now.version, now['data'], now['validFrom']], [4, { n: 4 }, fourth.txTime]);
  await refused(404, 'NOT_FOUND', api.get(recordPath('d', 'other')));
  const at = async (time: string | undefined): Promise<unknown> =>
    (await expect(200, api.get(`${recordPath('d', 'key')}?at=${encodeURIComponent(time ?? '')}`))).version;
  assert.deepEqual([await at(first.txTime), await at(second.txTime), await at(third.txTime)], [1, 2, 3]);
  const { items: history = [] } = await expect(200, api.get(`${recordPath('d', 'key')}/history`));
  assert.deepEqual(
    history.map(({ version }) => version),
    [4, 3, 2, 1],
  );

  // Whatever the clock says, what waits is not old enough to go.
  assert.equal((await outbox(api)).waiting, times.length);
  // A restart under the wrong clock changes nothing of the order.
  const { items: listed = [] } = await expect(200, api.get('/api/v1/dictionaries/d/records'));
  assert.deepEqual(
    listed.map((record) => record['businessKey']),
    ['key'],
  );
  assert.equal(await hub.stop(), 0);
  const again = await startHub({ dir, env });
  const after = await update(apiOf(again), 'd', 'key', 4, { n: 5 });
  assert.ok((after.txTime ?? '') > (fourth.txTime ?? ''));
  assert.deepEqual((await expect(200, apiOf(again).get(recordPath('d', 'key')))).version, 5);
  assert.equal(await again.stop(), 0);
});
