import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../base/temporary.fixture.ts';
import { countBoot } from './telemetry.ts';

test('a boot after one in which the hub was not stopped follows a loss of power', (t) => {
  const dir = temporaryDirectory(t);
  // Each run of the hub: its boot, how it ends, and what it says of the boots so far.
  const runs: readonly (readonly [
    bootId: string,
    ends: 'stopped' | 'killed',
    count: number,
    losses: number,
    after: boolean,
  ])[] = [
    ['a', 'stopped', 1, 0, false],
    ['a', 'killed', 1, 0, false],
    ['a', 'stopped', 1, 0, false],
    ['b', 'killed', 2, 0, false],
    ['c', 'killed', 3, 1, true],
    ['c', 'stopped', 3, 1, true],
    ['d', 'stopped', 4, 1, false],
    ['d', 'killed', 4, 1, false],
    ['e', 'killed', 5, 2, true],
    ['f', 'stopped', 6, 3, true],
    ['g', 'stopped', 7, 3, false],
  ];
  for (const [bootId, ends, count, powerLosses, afterPowerLoss] of runs) {
    const boot = countBoot(dir, bootId);
    assert.deepEqual(boot.facts, { count, powerLosses, afterPowerLoss }, `${bootId} ${ends}`);
    if (ends === 'stopped') boot.stopped();
  }
  assert.deepEqual(readdirSync(dir), ['host-state.json']);
  assert.equal(statSync(join(dir, 'host-state.json')).mode & 0o777, 0o600);
});

test('a file that makes no sense is replaced, and half a new one is not looked at', (t) => {
  const dir = temporaryDirectory(t);
  const path = join(dir, 'host-state.json');
  for (const content of ['', '{', 'null', '[]', '{"bootId":"a"}', '{"bootId":1,"stopped":true,"boots":"many"}']) {
    writeFileSync(path, content);
    assert.deepEqual(countBoot(dir, 'b').facts, { count: 1, powerLosses: 0, afterPowerLoss: false }, content);
  }
  writeFileSync(`${path}.new`, '{"bootId":"b","sto');
  assert.deepEqual(countBoot(dir, 'c').facts, { count: 2, powerLosses: 1, afterPowerLoss: true });
});

test('without a boot id nothing is counted and nothing written; a directory that is not there is told', (t) => {
  const dir = temporaryDirectory(t);
  const boot = countBoot(dir, '');
  boot.stopped();
  assert.deepEqual([boot.facts.count, readdirSync(dir)], [null, []]);
  assert.throws(() => countBoot(join(dir, 'nowhere'), 'a'), { code: 'ENOENT' });
});

test('it is written at start and at stop alone', (t) => {
  const dir = temporaryDirectory(t);
  const boot = countBoot(dir, 'a');
  const path = join(dir, 'host-state.json');
  const written = readFileSync(path, 'utf8');
  assert.match(written, /"stopped":false/);
  boot.stopped();
  assert.equal(readFileSync(path, 'utf8'), written.replace('"stopped":false', '"stopped":true'));
});
