/** The cards that the operator's page makes from a list: its templates and its loop as printed, taken by the first start of a box. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { newTrial, PACKAGED } from '../../src/appliance/setup/box.fixture.ts';
import { applySetup } from '../../src/appliance/setup/setup.ts';
import { digestOf, listTokens } from '../../src/shared/auth/tokens.ts';
import { ROOT, temporaryDirectory } from '../e2e/daemon.ts';

const page = readFileSync(join(ROOT, 'docs/how-to/operator/prepare-cards.md'), 'utf8');
const KEY = `ssh-ed25519 ${Buffer.concat([Buffer.from([0, 0, 0, 11]), Buffer.from('ssh-ed25519'), Buffer.alloc(36, 7)]).toString('base64')}`;

function block(language: string, holds: string): string {
  const blocks = [...page.matchAll(new RegExp(`^ *\`\`\`${language}\\n([^]*?)^ *\`\`\`$`, 'gm'))].map(
    ([, text = '']) => text,
  );
  const found = blocks.find((text) => text.includes(holds)) ?? '';
  assert.notEqual(found, '', `no ${language} block with ${holds}`);
  return found.replaceAll(/^ {3}/gm, '');
}

test('two boxes of a list start with their names, addresses, tokens and passwords', () => {
  const dir = temporaryDirectory();
  const template = block('toml', '[box]')
    .replace('"press-04"', '"@NAME@"')
    .replace('192.168.10.24/24', '@ADDRESS@')
    .replace('<the 64 digits>', '@HASH@')
    .replace('"kafka.password" = "..."', '"kafka.password" = "@PASSWORD@"')
    .replace('ssh-ed25519 AAAA...', KEY);
  writeFileSync(join(dir, 'setup-template.toml'), template);
  writeFileSync(join(dir, 'lineside-template.toml'), `${PACKAGED}${block('toml', 'at_start')}`);
  writeFileSync(join(dir, 'boxes.csv'), 'press-04,192.168.10.24/24,secret-4\npress-05,192.168.10.25/24,secret-5\n');
  execFileSync('bash', ['-e', '-c', block('bash', 'boxes.csv')], { cwd: dir, stdio: 'pipe' });
  for (const n of [4, 5]) {
    using trial = newTrial();
    const made = join(dir, `press-0${n}`);
    for (const file of ['setup.toml', 'lineside.toml']) copyFileSync(join(made, file), join(trial.boot, file));
    assert.deepEqual(applySetup(trial), []);
    assert.equal(trial.etc('hostname').trim(), `press-0${n}`);
    assert.match(trial.etc('systemd/network/10-lineside.network'), new RegExp(`Address=192\\.168\\.10\\.2${n}/24`));
    assert.match(trial.etc('lineside/lineside.toml'), new RegExp(`username = "press-0${n}"`));
    assert.equal(trial.etc('lineside/secrets/hub/kafka.password').trim(), `secret-${n}`);
    const tokens = listTokens(trial.box.path('/etc/lineside/tokens.json'));
    const own = readFileSync(join(made, 'token.txt'), 'utf8').trim();
    assert.deepEqual(
      tokens.map(({ name, sha256 }) => [name, sha256]),
      [['ops', digestOf(own).toString('hex')]],
    );
    assert.equal(trial.card('claim.txt'), '');
  }
});
