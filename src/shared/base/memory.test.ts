import assert from 'node:assert/strict';
import { test } from 'node:test';
import { residentBytes } from './memory.ts';

test('without descriptors left the figure of the last time is given', (t) => {
  const before = residentBytes();
  assert.ok(before > 0);
  t.mock.method(process.memoryUsage, 'rss', () => {
    throw Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' });
  });
  assert.equal(residentBytes(), before);
});
