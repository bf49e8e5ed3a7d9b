/** A file system that is really full: a small tmpfs, filled by another file. */
import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync, statSync, truncateSync, writeSync } from 'node:fs';
import type { TestContext } from 'node:test';

const PIECE = Buffer.alloc(64 * 1024, 0x5a);

/** A tmpfs at the path until the test has ended (nothing is left then), with options such as "size=12m" or "ro,size=4k"; false: the test is skipped. */
export function mountSmall(t: TestContext, path: string, options: string): boolean {
  mkdirSync(path, { recursive: true });
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', path]).status !== 0) {
    t.skip('tmpfs cannot be mounted here');
    return false;
  }
  t.after(() => {
    spawnSync('umount', ['-l', path]);
    rmSync(path, { recursive: true });
  });
  return true;
}

/** Takes every byte there is, but for `left`. */
export function fill(path: string, left = 0): void {
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
  truncateSync(path, Math.max(0, statSync(path).size - left));
}
