/** Backup and restore by root, over data of a service that was taken over: what it planted leads nowhere. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import { backUp, fill, noServices, restore, type Site, siteIn, statesOf } from './backup-site.ts';

/** Any user but root. */
const service = 65_534;
const skip = process.geteuid?.() === 0 ? false : 'needs root, whose privileges it is about';

/** A box whose data belong to the service; `roots`: a directory that it cannot write to. */
function boxOf(t: TestContext): Site & { readonly roots: string } {
  const dir = temporaryDirectory(t);
  chmodSync(dir, 0o755);
  const where = { ...siteIn(dir), roots: join(dir, 'roots') };
  mkdirSync(where.roots, { mode: 0o755 });
  fill(where, 'one');
  give(where.data);
  return where;
}

function give(data: string): void {
  for (const path of [data, ...readdirSync(data).map((name) => join(data, name))]) chownSync(path, service, service);
}

test('a backup holds no database of root in the place of one of the service', { skip }, async (t) => {
  const where = boxOf(t);
  chmodSync(where.roots, 0o700);
  renameSync(join(where.data, 'log.db'), join(where.roots, 'other.db'));
  symlinkSync(join(where.roots, 'other.db'), join(where.data, 'log.db'));
  await assert.rejects(backUp(where));
  assert.equal(existsSync(where.file), false);
});

test('a backup holds no file of root in the place of one of the service', { skip }, async (t) => {
  const where = boxOf(t);
  writeFileSync(join(where.roots, 'shadow'), 'root:secret', { mode: 0o640 });
  rmSync(join(where.data, 'line-state.json'));
  symlinkSync(join(where.roots, 'shadow'), join(where.data, 'line-state.json'));
  await assert.rejects(backUp(where), /EACCES/);
  assert.equal(existsSync(where.file), false);
});

test('a backup does not wait for what was planted in the place of a file', { skip, timeout: 20_000 }, async (t) => {
  for (const name of ['line-state.json', 'log.db', 'webhooks.key']) {
    const where = boxOf(t);
    rmSync(join(where.data, name));
    execFileSync('mkfifo', [join(where.data, name)]);
    await assert.rejects(backUp(where), /is no file/, name);
  }
});

test('a restore writes nothing, and discloses nothing, at the target of a swapped directory', { skip }, async (t) => {
  const where = boxOf(t);
  await backUp(where);
  const mine = join(where.data, '.restore');
  const swapDirectory = (step: string): void => {
    if (step !== 'data') return;
    renameSync(mine, `${mine}.moved`);
    mkdirSync(mine);
    symlinkSync(where.roots, join(mine, 'new'));
    chownSync(mine, service, service);
  };
  assert.throws(() => restore(where, noServices, swapDirectory));
  assert.deepEqual(readdirSync(where.roots), []);
});

test('a resumed restore moves nothing to where a swapped directory leads', { skip }, async (t) => {
  const where = boxOf(t);
  await backUp(where);
  const mine = join(where.data, '.restore');
  const swapDirectory = (step: string): void => {
    if (step !== 'journal') return;
    rmSync(join(mine, 'old'), { recursive: true });
    symlinkSync(where.roots, join(mine, 'old'));
  };
  assert.throws(() => restore(where, noServices, swapDirectory));
  assert.deepEqual(readdirSync(where.roots), []);
});

test('files that root restores belong to the service', { skip }, async (t) => {
  const where = boxOf(t);
  await backUp(where);
  restore(where);
  for (const name of ['log.db', 'refdata.db', 'line-state.json', 'webhooks.key']) {
    const { uid, gid } = statSync(join(where.data, name));
    assert.deepEqual([uid, gid], [service, service], name);
  }
  assert.deepEqual([process.geteuid?.(), process.getegid?.()], [0, 0]);
  assert.deepEqual(new Set(statesOf(where)), new Set(['one']));
});
