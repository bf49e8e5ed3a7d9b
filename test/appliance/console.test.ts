/** The page on the screen: who the box is, its addresses, and what the services say, which cannot take more than a line of it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { issueText } from '../../src/appliance/setup/card-writes.ts';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';

const script = readFileSync(join(import.meta.dirname, '../../image/units/console'), 'utf8');

/** What the screen shows, with these commands in the place of the box's own. */
async function shown(t: TestContext, script: string, commands: Readonly<Record<string, string>>): Promise<string> {
  const dir = temporaryDirectory(t);
  // One page is enough.
  for (const [name, text] of Object.entries({ ...commands, sleep: 'kill $PPID' }))
    writeFileSync(join(dir, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  const screen = spawn('sh', ['-c', script], { env: { PATH: `${dir}:${process.env['PATH']}` } });
  let page = '';
  screen.stdout.setEncoding('latin1').on('data', (part: string) => {
    page += part;
  });
  await once(screen, 'close');
  const [, lines = ''] = page.split('\x1b[?25l');
  assert.doesNotMatch(lines, /[^\n -~]/);
  return lines;
}

test('a status line cannot move about the screen, nor write over the fingerprint', async (t) => {
  const text = "printf 'open \\033[2J\\033[HFingerprint\\302\\2331m\\n'";
  const systemctl = `case "$*" in *StatusText*) ${text};; *ActiveState*) echo active;; esac`;
  assert.match(
    await shown(t, script, { systemctl, ip: 'true' }),
    /\n  lineside-hub   active: open \[2J\[HFingerprint1m\n/,
  );
});

test('shows each address on a line of its own, without the words of the kernel, and a state without a text', async (t) => {
  const issue = join(temporaryDirectory(t), 'issue');
  writeFileSync(
    issue,
    issueText({
      hostname: 'box',
      identity: { deviceId: 'd', caFingerprint: 'AB:CD', serverFingerprint: '', createdAt: '' },
      claim: undefined,
    }),
  );
  const text = script.replace('/run/lineside-console/issue', issue);
  const page = (ip: string) =>
    shown(t, text, { systemctl: 'case "$*" in *ActiveState*) echo inactive;; *) echo;; esac', ip });
  const link = 'printf "eth0 UP 169.254.7.9/16 \\n"';
  const global = `printf "eth0             UP             192.0.2.15/24 metric 1024 fd00::5054:ff:fe12:3456/64 \\nwlan0            UP             10.1.2.3/8 \\n"`;
  assert.match(
    await page(`case "$*" in *global) ${global};; esac`),
    /\n  Addresses    192\.0\.2\.15\/24\n {15}fd00::5054:ff:fe12:3456\/64\n {15}10\.1\.2\.3\/8\n  Fingerprint  AB:\n/,
  );
  // At the other end of a laptop's cable.
  assert.match(await page(`case "$*" in *link) ${link};; esac`), /\n  Addresses    169\.254\.7\.9\/16\n  Finger/);
  assert.match(
    await page('true'),
    /\n  Addresses    none yet\n[^]*\n  lineside       inactive\n  lineside-hub   inactive\n/,
  );
});
