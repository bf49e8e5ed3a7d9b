import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { closeSync, fsyncSync, mkdtempSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { dropPages } from './libc.ts';

/** Bytes of the file that the kernel holds in memory. */
function cachedBytes(path: string): number {
  const { stdout } = spawnSync('fincore', ['--bytes', '--noheadings', '--output', 'RES', path], { encoding: 'utf8' });
  return Number(stdout);
}

test('bytes that were written and synced are read from the medium again, not from memory', (t) => {
  // Not /tmp, which may be memory itself.
  const dir = mkdtempSync('/var/tmp/lineside-pages-');
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const path = join(dir, 'file');
  const fd = openSync(path, 'w+');
  t.after(() => closeSync(fd));
  const bytes = Buffer.alloc(1024 * 1024, 'x');
  writeSync(fd, bytes);
  fsyncSync(fd);
  assert.ok(cachedBytes(path) >= bytes.length);
  dropPages(fd);
  assert.equal(cachedBytes(path), 0);
  assert.ok(readFileSync(path).equals(bytes));
});

test('a file descriptor that is none is an error by its name', () => {
  assert.throws(() => dropPages(-1), { code: 'EBADF' });
});
