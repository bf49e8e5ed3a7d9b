import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { afterEach, beforeEach, test } from 'node:test';
import { Command } from 'commander';
import type { LocalShell } from '../cli/cli.ts';
import { addApplianceCommands } from './commands.ts';
import { dispose, newTrial, type Trial } from './setup/box.fixture.ts';

let trial: Trial;
beforeEach(() => {
  trial = newTrial();
});
afterEach(() => dispose(trial));

async function identity(...argv: string[]): Promise<string> {
  const stdout = new PassThrough();
  const stdin = new PassThrough();
  const shell: LocalShell = {
    io: { stdin, stdout, stderr: stdout, env: {}, clock: trial.clock, onSignal: () => () => undefined },
    warn: () => undefined,
    setStatus: () => undefined,
  };
  const program = new Command('lineside').exitOverride();
  addApplianceCommands(program, shell, () => Promise.reject(new Error('no restore here')));
  await program.parseAsync(['identity', ...argv, '--root', trial.box.root], { from: 'user' });
  return String(stdout.read() ?? '');
}
const fingerprint = (shown: string): string => /^fingerprint {2}(\S+)$/m.exec(shown)?.[1] ?? '';

test('create makes an identity once; show tells it; --force alone replaces it, and the name stays', async () => {
  await assert.rejects(identity('show'), { code: 'NOT_FOUND' });
  const made = await identity('create');
  assert.match(made, /^device {7}lineside-[0-9a-f]{16}$/m);
  assert.equal(fingerprint(await identity('create')), fingerprint(made));
  assert.match(await identity('show'), /^names {8}lineside-1a2b3c, lineside-1a2b3c\.local, localhost/m);
  const again = await identity('create', '--force');
  assert.notEqual(fingerprint(again), fingerprint(made));
  assert.equal(again.split('\n')[0], made.split('\n')[0]);
  const shown = JSON.parse(await identity('show', '--json')) as { caFingerprint: string };
  assert.equal(shown.caFingerprint, fingerprint(again));
});

test('renew keeps the fingerprint, takes another name, and repairs what create refuses to touch', async () => {
  await assert.rejects(identity('renew'), { code: 'NOT_FOUND' });
  const made = await identity('create');
  assert.equal(fingerprint(await identity('renew', '--hostname', 'Box-9')), fingerprint(made));
  assert.match(await identity('show'), /^names {8}box-9, box-9\.local/m);
  trial.disk.remove(trial.box.path('/etc/lineside/secrets/hub/tls.key'));
  await assert.rejects(identity('create'), { code: 'CONFLICT' });
  await assert.rejects(identity('show'), { code: 'CONFLICT' });
  assert.equal(fingerprint(await identity('renew')), fingerprint(made));
  assert.match(await identity('show'), /^names/m);
  await assert.rejects(identity('renew', '--hostname', 'a b'), { code: 'INVALID_ARGUMENT' });
});
