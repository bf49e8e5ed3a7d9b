/** What a browser loads for the first view of the console: the limit that keeps heavy parts in chunks of their own. */
import assert from 'node:assert/strict';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT } from '../e2e/daemon.ts';

const MAX_BYTES = 150_000;

test(`the first view is at most ${MAX_BYTES / 1_000} kB, compressed`, () => {
  const dir = join(ROOT, 'build/console');
  const names = new Set(['index.html', 'favicon.svg', 'console.css', 'console.js']);
  // A set takes what is added while it is walked. Parts that are loaded on demand are in import().
  for (const name of names)
    for (const [, part] of readFileSync(join(dir, name), 'utf8').matchAll(/(?:from|import)"\.\/([\w.-]+)"/g))
      names.add(part ?? '');
  const bytes = [...names].reduce((sum, name) => sum + statSync(join(dir, `${name}.gz`)).size, 0);
  assert.ok(bytes > 10_000 && bytes <= MAX_BYTES, `${[...names].join(', ')}: ${bytes} bytes`);
});

test('no animation of the page is without end: it would draw 60 frames a second while nothing happens', () => {
  const css = readFileSync(join(ROOT, 'build/console/console.css'), 'utf8');
  assert.match(css, /animation:[^;}]*beat/);
  assert.doesNotMatch(css, /infinite/);
});
