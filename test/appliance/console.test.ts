/** The page on the screen: the status text of a service cannot take more than one line of it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';

const script = join(import.meta.dirname, '../../image/units/console');

test('a status line cannot move about the screen, nor write over the fingerprint', async (t) => {
  const dir = temporaryDirectory(t);
  const command = (name: string, text: string): void => {
    writeFileSync(join(dir, name), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  };
  command('systemctl', "printf 'active\\nopen \\033[2J\\033[HFingerprint\\302\\2331m\\n'");
  command('ip', 'true');
  // One page is enough.
  command('sleep', 'kill $PPID');
  const screen = spawn('sh', [script], { env: { PATH: `${dir}:${process.env['PATH']}` } });
  let page = '';
  screen.stdout.setEncoding('latin1').on('data', (part: string) => {
    page += part;
  });
  await once(screen, 'close');
  const [, lines = ''] = page.split('\x1b[?25l');
  assert.match(lines, /lineside-hub +active open \[2J\[HFingerprint1m/);
  assert.doesNotMatch(lines, /[^\n -~]/);
});
