/** A bundle of 50,000 over HTTP: others read while it is imported. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { storedVersions } from '../soak/outbox-ledger.ts';
import type { Toml } from './daemon.ts';
import { startHub } from './hub.ts';
import { type HubApi, recordPath } from './hub-api.ts';
import { apiOf, create, dictionary, expect, items, outbox, sendBundle } from './hub-support.ts';

const alone: Toml = { device: { inventory: false } };
const BUNDLE = 50_000;
/** Beyond that a request beside an import would time out at impatient callers. */
const HOLD_LIMIT_MS = 1_000;

test('a bundle of 50,000 is one transaction, and others read while it is imported', async (t) => {
  const hub = await startHub({ config: alone });
  const api = apiOf(hub);
  await dictionary(api, 'd');
  await create(api, 'd', 'key 1', { i: 0 });
  const lines = items('d', BUNDLE, 1);
  const imported = sendBundle(api, lines, 'alle');
  const longest = await slowestRead(api, imported);
  const result = await expect(200, imported);
  t.diagnostic(`slowest read beside the import: ${Math.round(longest)} ms`);
  assert.ok(longest < HOLD_LIMIT_MS, `a read took ${longest} ms`);
  assert.deepEqual([result['created'], result['updated'], result['unchanged']], [BUNDLE - 1, 1, 0]);
  const versions = storedVersions(join(hub.dir, 'data', 'refdata.db'));
  assert.equal(versions.length, BUNDLE + 1);
  assert.equal(new Set(versions.map(({ txTime }) => txTime)).size, 2);
  assert.equal((await outbox(api)).waiting, BUNDLE + 1);
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
