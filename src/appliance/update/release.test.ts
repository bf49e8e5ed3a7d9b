import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compareVersions, parseVersion } from './release.ts';

const inOrder = [
  '0.9.9',
  '1.0.0-alpha',
  '1.0.0-alpha.1',
  '1.0.0-alpha.beta',
  '1.0.0-rc.2',
  '1.0.0-rc.10',
  '1.0.0',
  '1.0.1',
  '1.2.0',
  '1.10.0',
  '2.0.0',
];

test('versions have the order in which they were made', () => {
  for (const [i, a] of inOrder.entries()) {
    for (const [j, b] of inOrder.entries())
      assert.equal(Math.sign(compareVersions(a, b)), Math.sign(i - j), `${a} ${b}`);
  }
});

test('a string that is no version is older than any version', () => {
  for (const text of ['', 'unknown', '1.0', '1.0.0.0', 'v1.0.0', '1.0.0-', '1.0.0 ']) {
    assert.equal(parseVersion(text), undefined);
    assert.ok(compareVersions(text, '0.0.1') < 0 && compareVersions('0.0.1', text) > 0);
    assert.equal(compareVersions(text, 'other'), 0);
  }
});
