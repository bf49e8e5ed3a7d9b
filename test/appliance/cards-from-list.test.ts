/** The cards that the operator's page makes from a list: its list and templates as printed, taken by the first start of a box. */
import assert from 'node:assert/strict';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { newTrial, PACKAGED } from '../../src/appliance/setup/box.fixture.ts';
import { writeCards } from '../../src/appliance/setup/cards.ts';
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
  const put = (name: string, text: string): string => {
    writeFileSync(join(dir, name), text);
    return join(dir, name);
  };
  const names = writeCards({
    from: put('boxes.csv', block('csv', 'press-04')),
    setup: put('setup-template.toml', block('toml', '[box]').replace('ssh-ed25519 AAAA...', KEY)),
    lineside: put('lineside-template.toml', `${PACKAGED}${block('toml', 'at_start')}`),
    output: dir,
  });
  assert.deepEqual(names, ['press-04', 'press-05']);
  for (const n of [4, 5]) {
    using trial = newTrial();
    const made = join(dir, `press-0${n}`);
    for (const file of ['setup.toml', 'lineside.toml']) copyFileSync(join(made, file), join(trial.boot, file));
    assert.deepEqual(applySetup(trial), []);
    assert.equal(trial.etc('hostname').trim(), `press-0${n}`);
    assert.match(trial.etc('systemd/network/10-lineside.network'), new RegExp(`Address=192\\.168\\.10\\.2${n}/24`));
    assert.match(trial.etc('lineside/lineside.toml'), new RegExp(`username = "press-0${n}"`));
    assert.equal(trial.etc('lineside/secrets/hub/kafka.password').trim(), n === 4 ? 'secret' : 'other');
    const tokens = listTokens(trial.box.path('/etc/lineside/tokens.json'));
    const own = readFileSync(join(made, 'token.txt'), 'utf8').trim();
    assert.deepEqual(
      tokens.map(({ name, sha256 }) => [name, sha256]),
      [['ops', digestOf(own).toString('hex')]],
    );
    assert.equal(trial.card('claim.txt'), '');
  }
});
