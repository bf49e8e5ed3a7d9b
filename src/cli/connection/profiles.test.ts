/** Profiles as a user has them: added, listed, chosen and removed by the commands, in a real file. */
import assert from 'node:assert/strict';
import { chmodSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { beforeEach, describe, it } from 'node:test';
import { type Outcome, run, testFiles } from '../drive.fixture.ts';
import { FakeService } from '../line/fake-service.fixture.ts';
import { profilesFile } from './profiles.ts';

const { at, file } = testFiles();
const token = file('press.token', 'secret-1\n');
chmodSync(token, 0o600);
let home = 0;
let env: Record<string, string>;
let stored: string;
beforeEach(() => {
  home += 1;
  env = { HOME: at(`home-${home}`) };
  stored = `${env['HOME']}/.config/lineside/profiles.toml`;
});

const cli = (...argv: string[]): Promise<Outcome> => run(argv, { env });
async function ok(...argv: string[]): Promise<string> {
  const { status, stdout, stderr } = await cli(...argv);
  assert.deepEqual([status, stderr], [0, ''], argv.join(' '));
  return stdout;
}
async function fails(text: RegExp, ...argv: string[]): Promise<void> {
  const { status, stdout, stderr } = await cli(...argv);
  assert.deepEqual([status, stdout], [2, ''], stderr);
  assert.match(stderr, text);
}
function write(text: string, mode = 0o600): void {
  mkdirSync(dirname(stored), { recursive: true });
  writeFileSync(stored, text, { mode });
  chmodSync(stored, mode);
}
const fingerprint = 'ab'.repeat(32);

describe('profiles', () => {
  it('are kept in a file of the user alone, without the token', async () => {
    await ok('profile', 'add', 'press-04', '--host', 'box', '--fingerprint', fingerprint, '--token-file', token);
    assert.equal(statSync(stored).mode & 0o777, 0o600);
    assert.equal(statSync(dirname(stored)).mode & 0o777, 0o700);
    const text = readFileSync(stored, 'utf8');
    assert.ok(text.includes(`token_file = "${token}"`) && !text.includes('secret-1'), text);
    assert.equal(
      await ok('profile', 'list'),
      `  press-04\n    host         box\n    fingerprint  ${fingerprint}\n    token_file   ${token}\n`,
    );
    await fails(
      /there is a profile "press-04" already\. Replace it: --force/,
      'profile',
      'add',
      'press-04',
      '--host',
      'b',
    );
    await ok('profile', 'add', 'press-04', '--host', 'b', '--http-port', '9', '--tls', '--force');
    await ok('profile', 'use', 'press-04');
    const { profiles } = JSON.parse(await ok('profile', 'list', '--json')) as { profiles: unknown };
    assert.deepEqual(profiles, [{ name: 'press-04', default: true, host: 'b', httpPort: 9, tls: true }]);
    await ok('profile', 'remove', 'press-04');
    assert.equal(await ok('profile', 'list'), 'no profiles\n');
    assert.ok(!readFileSync(stored, 'utf8').includes('default'));
  });

  it('name the box of any command, by option, variable and default', async () => {
    const service = new FakeService();
    service.token = 'secret-1';
    service.devices = [{ portName: '/dev/ttyUSB0' }];
    const port = await service.listen('127.0.0.1:0');
    await ok('profile', 'add', 'a', '--host', `127.0.0.1:${port}`, '--token-file', token, '--settings', '300,7E1');
    await ok('profile', 'add', 'nowhere', '--host', '127.0.0.1:1');
    assert.equal(await ok('open', '--profile', 'a'), 'open: /dev/ttyUSB0 300,7E1\n');
    await ok('profile', 'use', 'nowhere');
    assert.equal((await cli('settings')).status, 3);
    assert.equal(await ok('settings', '--profile', 'a'), '/dev/ttyUSB0 300,7E1\n');
    env['LINESIDE_PROFILE'] = 'a';
    await ok('settings');
    delete env['LINESIDE_PROFILE'];
    await ok('profile', 'use', 'a');
    assert.equal(await ok('open', '9600'), 'open: /dev/ttyUSB0 9600,8N1\n');
    // The token of a profile is for its host alone.
    assert.equal((await cli('settings', '--host', `127.0.0.1:${port}`)).status, 4);
    await ok('profile', 'use');
    assert.match((await cli('settings')).stderr, /nonexistent/);
    const offers = await run(['__complete', 'settings', '--profile', 'n'], { env });
    assert.equal(offers.stdout, 'nowhere\n');
    service.stop();
  });

  it('are refused if others may read the file, or a secret that it names', async () => {
    await ok('profile', 'add', 'a', '--host', 'box', '--token-file', token);
    chmodSync(stored, 0o640);
    await fails(/profiles\.toml: other users may read or change it\. Try: chmod 600 /, 'settings');
    await fails(/other users may/, 'profile', 'use', 'a');
    chmodSync(stored, 0o600);
    const shown = file('shown.token', 'secret-1\n');
    await fails(/shown\.token: other users may read/, 'profile', 'add', 'b', '--host', 'box', '--token-file', shown);
    write(`[profiles.b]\nhost = "box"\ntoken_file = "${shown}"\n`);
    await fails(/shown\.token: other users may read/, 'settings', '--profile', 'b');
  });

  it('are checked, and every fault is named', async () => {
    write(
      'default = "c"\ncolour = 1\n[profiles.a]\nhots = "x"\ntls = "yes"\ntoken_file = "t"\nhttp_port = 0\n' +
        '[profiles."b c"]\nhost = "b"\n[profiles.d]\nfingerprint = "ab"\nhost = "x"\n[profiles.e]\nhost = "x"\nsettings = "9N1"\n',
    );
    const { status, stderr } = await cli('profile', 'list');
    assert.equal(status, 2);
    for (const fault of [
      'colour: no such key',
      'default: must be the name of a profile',
      'profiles.a.hots: no such key; there are host, http_port, ',
      'profiles.a.tls: must be true or false',
      'profiles.a.token_file: must be an absolute path',
      'profiles.a.http_port: must be a port',
      'profiles.b c: a name has 1 to 64 letters',
      'profiles.d: the fingerprint is not one of SHA-256',
      'profiles.e: "9N1" are not line settings',
    ])
      assert.ok(stderr.includes(`\n  ${fault}`), `${fault}\n${stderr}`);
    write('[profiles.a\nhost = 1\n');
    await fails(/profiles\.toml: line 1: /, 'profile', 'list');
    write('x'.repeat(1024 * 1024 + 1));
    await fails(/no file of at most 1 MiB/, 'profile', 'list');
  });

  it('refuse names and options that contradict themselves, and leave the file as it was', async () => {
    await ok('profile', 'add', 'a', '--host', 'box');
    const before = readFileSync(stored, 'utf8');
    await fails(/is no name of a profile/, 'profile', 'add', 'a b', '--host', 'box');
    await fails(
      /a token would cross the network/,
      'profile',
      'add',
      'b',
      '--host',
      'x',
      '--plaintext',
      '--token-file',
      token,
    );
    await fails(
      /exclude each other/,
      'profile',
      'add',
      'b',
      '--host',
      'x',
      '--plaintext',
      '--fingerprint',
      fingerprint,
    );
    await fails(/no profile is called "b"\. There are: a\./, 'profile', 'use', 'b');
    await fails(/no profile is called "b"/, 'profile', 'remove', 'b');
    await fails(/no profile is called "b"/, 'settings', '--profile', 'b');
    assert.match((await cli('profile', 'add', 'b', '--host', 'x', '--ca', at('none'))).stderr, /cannot read .*none/);
    writeFileSync(`${stored}.new`, '');
    await fails(/another command is changing it\. .* remove .*\.new/, 'profile', 'remove', 'a');
    assert.equal(readFileSync(stored, 'utf8'), before);
    assert.ok(existsSync(`${stored}.new`));
  });
});

it('the file of the profiles is where each system keeps settings of a user', () => {
  const here = { HOME: '/home/a', APPDATA: '/app' };
  const file = (more: object, platform: string): string | undefined => profilesFile({ ...here, ...more }, platform);
  assert.equal(file({}, 'linux'), '/home/a/.config/lineside/profiles.toml');
  assert.equal(file({ XDG_CONFIG_HOME: '/x' }, 'linux'), '/x/lineside/profiles.toml');
  assert.equal(
    file({ XDG_CONFIG_HOME: 'x' }, 'linux'),
    '/home/a/.config/lineside/profiles.toml',
    'as the XDG standard says',
  );
  assert.equal(file({}, 'darwin'), '/home/a/Library/Application Support/lineside/profiles.toml');
  assert.equal(file({}, 'win32'), '/app/lineside/profiles.toml');
  assert.equal(profilesFile({}, 'linux'), undefined);
});
