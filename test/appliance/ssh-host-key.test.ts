/** The host's key of SSH, made at the first start: a plug pulled meanwhile leaves a box that still makes one. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';

const unit = join(import.meta.dirname, '../../image/files/usr/lib/systemd/system/ssh.service.d/lineside.conf');
const name = 'ssh_host_ed25519_key';
const skip = spawnSync('ssh-keygen', ['-?']).error === undefined ? false : 'ssh-keygen is not installed';

/** As the unit does before sshd. */
function begin(dir: string): void {
  const [, script = ''] = /^ExecStartPre=\/bin\/sh -c '(.*)'$/m.exec(readFileSync(unit, 'utf8')) ?? [];
  assert.match(script, /ssh-keygen/);
  const ran = spawnSync('/bin/sh', ['-c', script.replaceAll('/etc/ssh/lineside', dir)], { encoding: 'utf8' });
  assert.equal(ran.status, 0, ran.stdout + ran.stderr);
}

test('is made where there is none, and stays', { skip }, (t) => {
  const dir = temporaryDirectory(t);
  begin(dir);
  const made = readFileSync(join(dir, name), 'utf8');
  assert.match(made, /^-----BEGIN OPENSSH PRIVATE KEY-----/);
  begin(dir);
  assert.equal(readFileSync(join(dir, name), 'utf8'), made);
  assert.deepEqual(
    readdirSync(dir).filter((one) => !one.startsWith(name)),
    [],
  );
});

test('is recreated over what a pulled plug left of the first', { skip }, (t) => {
  for (const left of [name, `${name}.pub`, `${name}.new`, `${name}.new.pub`]) {
    const dir = temporaryDirectory(t);
    writeFileSync(join(dir, left), '');
    begin(dir);
    assert.match(readFileSync(join(dir, name), 'utf8'), /^-----BEGIN OPENSSH PRIVATE KEY-----/, left);
  }
});
