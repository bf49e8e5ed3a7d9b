import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { requestFactoryReset } from './boot-partition.ts';
import { testBox } from './update.fixture.ts';

const machineId = '0123456789abcdef0123456789abcdef';

test('the request names this box, and the boot partition is read-only again', (t) => {
  const box = testBox(t);
  writeFileSync(box.at('machine-id'), `${machineId}\n`);
  requestFactoryReset(box.target, box.at('machine-id'));
  assert.equal(readFileSync(box.at('boot/factory-reset'), 'utf8'), `${machineId}\n`);
  assert.deepEqual(box.remounts, ['rw', 'ro']);
});

test('where there is no image, or the box has no id, nothing is asked for', (t) => {
  const box = testBox(t);
  writeFileSync(box.at('machine-id'), '\n');
  const refused = { code: 'NOT_READY' };
  assert.throws(() => requestFactoryReset(box.target, box.at('machine-id')), refused);
  writeFileSync(box.at('machine-id'), machineId);
  assert.throws(() => requestFactoryReset({ ...box.target, factsFile: box.at('none') }, box.at('machine-id')), refused);
  assert.ok(!existsSync(box.at('boot/factory-reset')));
});
