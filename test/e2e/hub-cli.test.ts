/** The technician's commands for reference data and delivery against the compiled hub. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type Outcome, run } from '../../src/cli/drive.fixture.ts';
import { startHub } from './hub.ts';

test('a dictionary, its records with their history, and a draft', async () => {
  const hub = await startHub();
  const cli = (...args: string[]): Promise<Outcome> => run(args, { httpSocket: hub.socket });
  const schema = join(hub.dir, 's.json');
  writeFileSync(schema, '{"type":"object","required":["kw"],"properties":{"kw":{"type":"number"}}}');
  const made = await cli('dict', 'create', 'pumps', '--title', 'Pumps', '--scope', 'PUBLIC', '--schema', schema);
  assert.deepEqual([made.status, made.stderr, made.stdout], [0, '', 'created dictionary pumps\n']);
  assert.equal(
    (await cli('record', 'create', 'pumps', '..', '{"kw": 7.5}', '--reason', 'größer')).stdout,
    'created ..\n',
  );
  assert.equal(
    (await cli('record', 'update', 'pumps', '..', '{"kw": 8}')).stdout,
    'updated ..: version 2, after version 1\n',
  );
  const stale = await cli('record', 'close', 'pumps', '..', '--version', '1');
  assert.equal(stale.status, 1);
  assert.match(
    stale.stderr,
    /not at version 1 any more, but at 2\. .*\n {2}version 2: updated by local .*\(changed: kw\)\n$/,
  );
  assert.equal((await cli('record', 'close', 'pumps', '..')).status, 0);
  assert.equal((await cli('record', 'get', 'pumps', '..')).status, 5);
  assert.match(
    (await cli('record', 'history', 'pumps', '..')).stdout,
    /\n3 +closed.*\n2 +updated.*\n1 +created .*: größer /,
  );
  const wrong = await cli('record', 'create', 'pumps', 'P-2', '{"kw": "x"}');
  assert.deepEqual([wrong.status, wrong.stdout], [1, '']);
  assert.match(wrong.stderr, /\/data\/kw must be number/);
  assert.equal((await cli('dict', 'draft', 'create', 'pumps', '--schema', schema, '--reason', 'r')).status, 0);
  for (const step of ['request-review', 'approve', 'publish']) {
    assert.equal((await cli('dict', 'draft', step, 'pumps', '1')).status, 0, step);
  }
  assert.match((await cli('dict', 'draft', 'withdraw', 'pumps', '1')).stderr, /cannot withdraw draft 1 of pumps: /);
  assert.equal(await hub.stop(), 0);
});
