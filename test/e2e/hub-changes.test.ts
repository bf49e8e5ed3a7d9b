/** A bundle of 50,000 over HTTP: with one bad line nothing changes, and others read while it is imported. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { storedVersions } from '../soak/outbox-ledger.ts';
import type { Toml } from './daemon.ts';
import { startHub } from './hub.ts';
import { type HubApi, recordPath } from './hub-api.ts';
import { apiOf, create, dictionary, expect, items, outbox, refused, sendBundle } from './hub-support.ts';

const alone: Toml = { device: { inventory: false } };
const BUNDLE = 50_000;
/** Beyond that a request beside an import would time out at impatient callers. */
const HOLD_LIMIT_MS = 1_000;

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
