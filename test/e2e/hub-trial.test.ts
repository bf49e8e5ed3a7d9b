/** An update that migrates refdata.db, by the real processes: the trial, the restart when the slot is kept, the migration. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { bodiesAfter, bodiesBefore, connect, sampleIn } from '../../src/hub/contents-migration.fixture.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { temporaryDirectory } from './daemon.ts';
import { startBoth } from './hub.ts';

const isolated = ['unshare', '--mount', '--', 'sh', '-ec'];
const unable = spawnSync('unshare', ['--mount', 'true']).status === 0 ? false : 'no mount namespaces here';

test('on trial nothing is migrated; when the slot is kept, the hub restarts, migrates and works', {
  skip: unable,
}, async () => {
  const dir = temporaryDirectory();
  const path = sampleIn(join(dir, 'data'));
  const before = connect(path);
  const bodies = bodiesBefore(before);
  before.close();
  const digest = (): string => createHash('sha256').update(readFileSync(path)).digest('hex');
  const untouched = digest();
  const facts = join(dir, 'lineside-boot');
  writeFileSync(facts, 'SLOT=b\nTRYING=yes\n');
  // The place of the facts, for this process tree alone.
  const script = `mount -t tmpfs tmpfs /run; ln -s ${facts} /run/lineside-boot; exec "$@"`;
  const both = await startBoth({ dir, wrapper: [...isolated, script, 'sh'] });
  const first = both.pid();
  const made = { name: 'machines', title: 'Machines', scope: 'PUBLIC' };
  const refused = await both.http('POST', '/api/v1/dictionaries', made);
  assert.deepEqual([refused.status, (refused.body as { code: string }).code], [503, 'UPDATE_ON_TRIAL']);
  assert.equal((await both.http('GET', '/readyz')).status, 503);
  assert.equal((await both.http('GET', '/api/v1/line')).status, 200);
  assert.equal(digest(), untouched);

  writeFileSync(facts, 'SLOT=b\nTRYING=no\n');
  await both.waitFor(/ migration of refdata.db completed rows=28 notWhole=0 /);
  await until('ready', async () => (await both.http('GET', '/readyz').catch(() => undefined))?.status === 200);
  assert.notEqual(both.pid(), first);
  assert.equal((await both.http('POST', '/api/v1/dictionaries', made)).status, 201);
  assert.equal(await both.stop(), 0);
  const after = connect(path);
  // Those of the deleted subscription have been removed.
  const others = [...bodies].filter(([, body]) => !body?.includes('"soon deleted"'));
  assert.ok(others.length > 20);
  const left = bodiesAfter(after);
  assert.deepEqual(
    others.filter(([id, body]) => left.get(id) !== body).map(([id]) => id),
    [],
  );
  after.close();
});
