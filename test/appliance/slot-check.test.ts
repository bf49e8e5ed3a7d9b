/** The health check of a slot on trial: the script itself, with a systemctl, a clock and a lineside that are played. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';

const script = join(import.meta.dirname, '../../image/units/slot-check');

/** What each service does, by the second: its process id, 0 while it is not up. */
type Life = (second: number) => readonly [line: number, hub: number];

function played(t: TestContext, trying: string, life: Life): { done: string[]; seconds: number } {
  const dir = temporaryDirectory(t);
  const at = (name: string): string => join(dir, name);
  const tool = (name: string, text: string): void => {
    writeFileSync(at(`bin/${name}`), `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  };
  mkdirSync(at('bin'));
  const lives = Array.from({ length: 700 }, (_, second) => `${life(second).join(' ')}\n`);
  writeFileSync(at('lives'), lives.join(''));
  writeFileSync(at('facts'), trying);
  writeFileSync(at('uptime'), '20.00 1.00\n');
  const now = `second=$(cut -d. -f1 ${at('uptime')}); set -- $(sed -n "$((second + 1))p" ${at('lives')}) "$@"`;
  tool('sleep', `second=$(cut -d. -f1 ${at('uptime')}); echo "$((second + 10)).00 1.00" >${at('uptime')}`);
  tool('lineside', `echo "lineside $*" >>${at('done')}`);
  tool(
    'systemctl',
    `${now}
    case $3 in
      is-active) case $5 in lineside.service) [ "$1" != 0 ] ;; *) [ "$2" != 0 ] ;; esac ;;
      show) printf '%s\\n\\n%s\\n' "$1" "$2" ;;
      *) shift 2; echo "systemctl $*" >>${at('done')} ;;
    esac`,
  );
  const env = {
    PATH: `${at('bin')}:/usr/bin:/bin`,
    SLOT_CHECK_FACTS: at('facts'),
    SLOT_CHECK_UPTIME: at('uptime'),
  };
  const { status, stderr } = spawnSync(script, { env, encoding: 'utf8', timeout: 30_000 });
  assert.equal(status, 0, stderr);
  const done = existsSync(at('done')) ? readFileSync(at('done'), 'utf8').trim().split('\n') : [];
  return { done, seconds: Number.parseInt(readFileSync(at('uptime'), 'utf8'), 10) };
}

const trial = 'SLOT=b\nTRYING=yes\n';

test('both services up and steady: the slot is kept, after half a minute and no sooner', (t) => {
  const { done, seconds } = played(t, trial, (second) => (second < 60 ? [0, 0] : [100, 200]));
  assert.deepEqual(done, ['lineside update mark-good']);
  assert.ok(seconds >= 90 && seconds <= 110, `after ${seconds} s`);
});

for (const [name, life] of [
  ['never come up', () => [0, 0]],
  ['are only one of two', () => [100, 0]],
  ['are the other one of two', () => [0, 200]],
  ['start again every twenty seconds', (second) => [100 + Math.floor(second / 20), 200]],
] as const satisfies readonly (readonly [string, Life])[]) {
  test(`services that ${name}: the box starts again`, (t) => {
    const { done, seconds } = played(t, trial, life);
    assert.deepEqual(done, ['systemctl --no-block reboot']);
    assert.ok(seconds >= 600);
  });
}

for (const facts of ['SLOT=a\nTRYING=no\n', '']) {
  test(`no trial (${JSON.stringify(facts)}): nothing is done`, (t) => {
    assert.deepEqual(
      played(t, facts, () => [0, 0]),
      { done: [], seconds: 20 },
    );
  });
}
