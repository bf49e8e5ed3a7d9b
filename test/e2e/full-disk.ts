/** A file system that is really full: a small tmpfs, filled by another file. */
import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, writeSync } from 'node:fs';
import type { TestContext } from 'node:test';

const PIECE = Buffer.alloc(64 * 1024, 0x5a);

/** A tmpfs of so many MiB at the path until the test has ended; false: this machine mounts none. */
export function mountSmall(t: TestContext, path: string, mib: number): boolean {
  mkdirSync(path, { recursive: true });
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${mib}m`, 'tmpfs', path]).status !== 0) return false;
  t.after(() => spawnSync('umount', ['-l', path]));
  return true;
}

/** Takes every byte there is. */
export function fill(path: string): void {
  const file = openSync(path, 'w');
  try {
    for (let size = PIECE.length; size >= 1; ) {
      try {
        if (writeSync(file, PIECE, 0, size) === 0) size >>= 1;
      } catch {
        size >>= 1;
      }
    }
  } finally {
    closeSync(file);
  }
}
