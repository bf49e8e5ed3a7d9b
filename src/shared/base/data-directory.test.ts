/** A directory that cannot be made is reported with its key, its place and the cause. */

import assert from 'node:assert/strict';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { makeDirectory } from './data-directory.ts';
import { temporaryDirectory } from './temporary.fixture.ts';

test('makes a directory with those above it, and says by its key why it cannot', async (t) => {
  const dir = temporaryDirectory(t);
  const deep = join(dir, 'a', 'b');
  await makeDirectory('data.dir', deep);
  await makeDirectory('data.dir', deep);
  assert.ok(statSync(deep).isDirectory());

  const file = join(dir, 'file');
  writeFileSync(file, '');
  for (const [place, cause] of [
    [file, /^data\.dir: cannot make the directory \S+: EEXIST/],
    [join(file, 'below'), /^data\.dir: cannot make the directory \S+: ENOTDIR/],
  ] as const) {
    await assert.rejects(makeDirectory('data.dir', place), { code: 'STORAGE_FAILED', message: cause });
  }
});
