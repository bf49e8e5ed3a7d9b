/** The script that runs at each start of the box: it starts Node only where there is something to do. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, test } from 'node:test';
import { revokeToken } from '../../shared/auth/token-file.ts';
import { newTrial, type Trial } from './box.fixture.ts';

const script = join(import.meta.dirname, '../../../image/units/setup');
const main = join(import.meta.dirname, '../../main.ts');

let trial: Trial;
beforeEach(() => {
  trial = newTrial();
  const bin = join(trial.dir, 'bin');
  mkdirSync(bin);
  // Remounting is written down, and so is each start of Node.
  const programs = {
    mount: `echo "$*" >>${trial.dir}/did`,
    lineside: `echo node >>${trial.dir}/did\nexec ${process.execPath} ${main} "$@"`,
  };
  for (const [name, body] of Object.entries(programs)) {
    writeFileSync(join(bin, name), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
  }
});
afterEach(() => trial[Symbol.dispose]());

/** What one start did: "rw", "node", "ro". */
function start(facts = ''): string[] {
  const did = join(trial.dir, 'did');
  rmSync(did, { force: true });
  rmSync(trial.box.path('/run'), { recursive: true, force: true });
  mkdirSync(trial.box.path('/run'));
  writeFileSync(trial.box.path('/run/lineside-boot'), facts);
  const bin = join(trial.dir, 'bin');
  const NODE_COMPILE_CACHE = join(import.meta.dirname, '../../../.cache/compile');
  const env = { PATH: `${bin}:${process.env.PATH}`, SETUP_COMMAND: join(bin, 'lineside'), NODE_COMPILE_CACHE };
  const ended = spawnSync(script, [trial.boot, trial.box.root], { env, encoding: 'utf8', timeout: 30_000 });
  assert.equal(ended.status, 0, ended.stderr);
  assert.equal(ended.stderr, '');
  assert.match(trial.box.text('/run/lineside-console/issue') ?? '', /Fingerprint/);
  const lines = existsSync(did) ? readFileSync(did, 'utf8').trim().split('\n') : [];
  return lines.map((line) => line.replace(`remount,`, '').replace('-o ', '').replace(` ${trial.boot}`, ''));
}
const WORKED = ['rw', 'node', 'ro'];

test('Node starts, and the card is writable, only while there is something to do', () => {
  trial.put('Setup.TOML', '[network.wifi]\nssid = "s"\ncountry = "DE"\npsk = "correct horse"\n');
  assert.deepEqual(start(), WORKED, 'the first start');
  assert.ok(!trial.card('Setup.TOML').includes('horse'));
  assert.deepEqual(start(), [], 'nothing changed, though the secrets left the file');
  trial.put('lineside.toml', 'nonsense');
  assert.deepEqual(start(), WORKED, 'a new file');
  assert.match(trial.card('setup-errors.txt'), /lineside\.toml:1/);
  assert.deepEqual(start(), [], 'a faulty file is reported once');
  rmSync(join(trial.boot, 'lineside.toml'));
  assert.deepEqual(start(), WORKED, 'a file that is gone');
  assert.equal(trial.card('setup-errors.txt'), '');
  revokeToken(trial.box.path('/etc/lineside/tokens.json'), 'claim');
  assert.deepEqual(start(), WORKED, 'the claim token was revoked');
  assert.equal(trial.card('claim.txt'), '');
  assert.deepEqual(start(), []);
});

test('an interrupted set-up and a missing identity are repaired', () => {
  start();
  mkdirSync(trial.box.path('/etc/lineside/setup/pending'));
  assert.deepEqual(start(), WORKED);
  rmSync(trial.box.path('/etc/lineside/identity.json'));
  assert.deepEqual(start(), WORKED);
  assert.deepEqual(start(), []);
});

test('while nothing can be kept the card stays read-only, so that its secrets are there at the next start', () => {
  assert.deepEqual(start('SLOT=a\nDATA=lost\n'), ['node']);
});
