/** A collector whose disk is full: a real one, as small as can be. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { Status } from 'nice-grpc';
import { mountSmall } from '../shared/base/small-disk.fixture.ts';
import { stored, words } from './batches.fixture.ts';
import { connect, refused, start } from './client.fixture.ts';

it('refuses what a full disk cannot take, keeps what it has, and resumes when there is room', async (t) => {
  // mountSmall() removes it: a directory that removes itself would do so before the file system is unmounted.
  const place = mkdtempSync(join(tmpdir(), 'lineside-collector-full-'));
  if (!mountSmall(t, place, 'size=256k')) return;
  writeFileSync(join(place, 'ballast'), Buffer.alloc(128 * 1024));
  const { dir, port } = await start(t, { dir: join(place, 'logs') });
  const client = connect(t, port);
  let through = 0;
  const next = () => client.pushed({ after: through, through: through + 5, bytes: 1_000 });
  for (;;) {
    const outcome = await next().catch((error: unknown) => error);
    if (typeof outcome !== 'number') break;
    assert.equal(outcome, (through += 5));
    assert.ok(through < 1_000, 'the disk never became full');
  }
  assert.ok(through > 20, 'it was full from the start');
  for (let tries = 0; tries < 3; tries += 1) {
    await refused(next(), Status.RESOURCE_EXHAUSTED, /cannot store the batch: ENOSPC/);
    assert.equal(await client.position(), through);
    assert.deepEqual(await stored(dir), words(1, through));
  }
  // Another log has no room to begin, and the position of one that never began can be asked all the same.
  await refused(
    client.pushed({ logId: 'log-2', after: 0, through: 5, bytes: 1_000 }),
    Status.RESOURCE_EXHAUSTED,
    /ENOSPC/,
  );
  assert.equal(await client.position('box-1', 'log-2'), 0);
  rmSync(join(place, 'ballast'));
  assert.equal(await next(), through + 5);
  assert.equal(await client.pushed({ logId: 'log-2', after: 0, through: 5 }), 5);
  assert.deepEqual(await stored(dir, 'box-1', 'log-1'), words(1, through + 5));
});
