import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { run } from '../cli/drive.fixture.ts';
import { exitStatus } from '../cli/failure.ts';
import { addApplianceCommands } from './commands.ts';
import { newTrial, type Trial } from './setup/box.fixture.ts';

let trial: Trial;
beforeEach(() => {
  trial = newTrial();
});
afterEach(() => trial[Symbol.dispose]());

const identity = (...argv: string[]) =>
  run(['identity', ...argv, '--root', trial.box.root], {
    clock: trial.clock,
    local: (program, shell) => addApplianceCommands(program, shell, () => Promise.reject(new Error('no restore here'))),
  });
const shown = async (...argv: string[]): Promise<string> => {
  const { status, stdout, stderr } = await identity(...argv);
  assert.equal(status, 0, stderr);
  return stdout;
};
const refused = async (status: number, why: RegExp, ...argv: string[]): Promise<void> => {
  const outcome = await identity(...argv);
  assert.deepEqual([outcome.status, outcome.stdout], [status, '']);
  assert.match(outcome.stderr, why);
};
const fingerprint = (text: string): string => /^fingerprint {2}(\S+)$/m.exec(text)?.[1] ?? '';

test('create makes an identity once; show prints it; --force alone replaces it, and the name stays', async () => {
  await refused(exitStatus.nothing, /Try: sudo lineside identity create/, 'show');
  const made = await shown('create');
  assert.match(made, /^device {7}lineside-[0-9a-f]{16}$/m);
  assert.equal(fingerprint(await shown('create')), fingerprint(made));
  assert.match(await shown('show'), /^names {8}lineside-1a2b3c, lineside-1a2b3c\.local, localhost/m);
  const again = await shown('create', '--force');
  assert.notEqual(fingerprint(again), fingerprint(made));
  assert.equal(again.split('\n')[0], made.split('\n')[0]);
  const printed = JSON.parse(await shown('show', '--json')) as { caFingerprint: string };
  assert.equal(printed.caFingerprint, fingerprint(again));
});

test('renew keeps the fingerprint, takes another name, and repairs what create refuses to touch', async () => {
  await refused(exitStatus.nothing, /no authority to sign it/, 'renew');
  const made = await shown('create');
  assert.equal(fingerprint(await shown('renew', '--hostname', 'Box-9')), fingerprint(made));
  assert.match(await shown('show'), /^names {8}box-9, box-9\.local/m);
  trial.disk.remove(trial.box.path('/etc/lineside/secrets/hub/tls.key'));
  await refused(exitStatus.refused, /cannot use the identity/, 'create');
  await refused(exitStatus.refused, /cannot use the identity/, 'show');
  assert.equal(fingerprint(await shown('renew')), fingerprint(made));
  assert.match(await shown('show'), /^names/m);
  await refused(exitStatus.refused, /it is no host name/, 'renew', '--hostname', 'a b');
});
