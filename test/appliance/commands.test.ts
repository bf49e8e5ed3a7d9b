/** The commands of update, backup and restore as they are typed. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createPublicKey } from 'node:crypto';
import { appendFileSync, closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { testBox } from '../../src/appliance/update/update.fixture.ts';
import { openBundle, readKey } from '../../src/appliance/update/update-bundle.ts';
import { run as drive } from '../../src/cli/drive.fixture.ts';
import { addLocalCommands } from '../../src/local-commands.ts';
import { FakeClock } from '../../src/shared/base/fake-clock.fixture.ts';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';
import { readWork } from '../../src/shared/base/work-state.ts';
import { fill, siteIn, statesOf } from './backup-site.ts';

const env = { SOURCE_DATE_EPOCH: '1800000000' };
const options = { version: '1.4.0', env, clock: new FakeClock(), local: addLocalCommands };
const run = (...argv: string[]) => drive(argv, options);

test('update pack makes what update install reads, of the version that runs and the date that is set', async (t) => {
  const box = testBox(t);
  const where = ['--root', box.at('new-root'), '--boot', box.at('new-boot'), '--key', box.at('update.key')];
  const { status, stdout, stderr } = await run('update', 'pack', ...where, '--out', box.at('packed'));
  assert.equal(status, 0, stderr);
  const fd = openSync(box.at('packed'), 'r');
  t.after(() => closeSync(fd));
  const { manifest } = openBundle(fd, readKey(box.at('update.pub'), createPublicKey));
  assert.deepEqual(JSON.parse(stdout), manifest);
  assert.deepEqual(
    [manifest.version, manifest.board, manifest.builtAt.slice(0, 10)],
    ['1.4.0', 'raspberry-pi-arm64', '2027-01-15'],
  );
  assert.equal(box.install(box.at('packed')).slot, 'b');
});

test('backup, its list with tar, and restore', async (t) => {
  const dir = temporaryDirectory(t);
  const where = siteIn(dir);
  fill(where, 'one');
  const config = ['--config', where.configFile];
  const made = await run('backup', where.file, ...config);
  assert.deepEqual(
    [made.status, /files of box-1, \d+ bytes, read back and sound/.test(made.stdout)],
    [0, true],
    made.stderr,
  );
  const keyless = await run('backup', '--json', '--no-keys', '--no-log', `${where.file}.2`, ...config);
  assert.deepEqual([JSON.parse(keyless.stdout).format, keyless.stderr], ['lineside-backup 1 without keys', '']);
  const { stdout, stderr } = spawnSync('tar', ['tf', where.file], { encoding: 'utf8' });
  assert.equal(stderr, '');
  for (const name of ['etc/secrets/hub/kafka.password', 'line/log.db', 'hub/refdata.db', 'manifest.json']) {
    assert.ok(stdout.split('\n').includes(name), name);
  }
  const shown = await run('restore', where.file, '--show', '--json', ...config);
  const { deviceId, withKeys, configFiles } = JSON.parse(shown.stdout) as Record<string, unknown>;
  assert.deepEqual([deviceId, withKeys, configFiles, shown.stderr], ['box-1', true, 3, '']);
  assert.match((await run('restore', `${where.file}.2`, '--show', ...config)).stdout, /^logBytes +none$/m);
  writeFileSync(join(where.etc, 'tokens.json'), '{"text":"two"}');
  const asked = await run('restore', where.file, ...config);
  assert.deepEqual([asked.status, /With --yes it is done/.test(asked.stderr)], [1, true]);
  assert.match(readFileSync(join(where.etc, 'tokens.json'), 'utf8'), /two/);
  const none = await run('restore', `${where.file}\x9b2J\u202e`, ...config);
  assert.deepEqual(
    [none.status, /there is no such file/.test(none.stderr), /--yes/.test(none.stderr)],
    [5, true, false],
  );
  assert.doesNotMatch(none.stderr, /[\x80-\x9f\u202e]/, 'it drives no terminal');
  const stateFile = join(dir, 'state.json');
  const broken = await run('restore', where.configFile, '--yes', '--state-file', stateFile, ...config);
  assert.deepEqual([broken.status !== 0, readWork(stateFile)?.state], [true, 'failed']);
  const restored = await run('restore', where.file, '--yes', '--state-file', stateFile, ...config);
  const { state, step, result } = readWork(stateFile) ?? {};
  assert.deepEqual([state, step, result], ['done', 'replacing', 'box-1']);
  assert.deepEqual(
    [restored.status, restored.stdout.startsWith('this box is box-1 as of ')],
    [0, true],
    restored.stderr,
  );
  assert.deepEqual(new Set(statesOf(where)), new Set(['one']));
  assert.equal((await run('restore', '--finish', ...config)).stdout, 'no restore was interrupted\n');
});

test('a backup is made beside a configuration with a fault elsewhere, which is reported', async (t) => {
  const dir = temporaryDirectory(t);
  const where = siteIn(dir);
  fill(where, 'one');
  appendFileSync(where.configFile, '[kafka]\npartitons = 3\n');
  const made = await run('backup', where.file, '--config', where.configFile);
  assert.deepEqual(
    [made.status, /^lineside: warning: .*has faults:\n {2}line \d+: kafka\.partitons: no such key/.test(made.stderr)],
    [0, true],
    made.stderr,
  );
  appendFileSync(where.configFile, '[webhooks]\nkey_file = 7\n');
  const refused = await run('backup', where.file, '--config', where.configFile);
  assert.deepEqual([refused.status, /webhooks\.key_file: /.test(refused.stderr)], [2, true], refused.stderr);
});

test('a factory reset wants to be confirmed, and an update a box with slots', async () => {
  const reset = await run('factory-reset');
  assert.deepEqual([reset.status, /All data of this box would be gone/.test(reset.stderr)], [1, true]);
  assert.match((await run('update', 'status')).stderr, /not started from slots.*Debian package is updated by apt/);
});
