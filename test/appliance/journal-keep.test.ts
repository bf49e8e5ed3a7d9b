/** What outlives a restart of the journal: the script itself, with a journalctl that is played. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';

const script = readFileSync(join(import.meta.dirname, '../../image/units/journal-keep'), 'utf8');
const limitBytes = 1_000;

/** As journalctl: what the journal has beyond the place noted, which is noted at its end. */
const journalctl = (dir: string): string => `#!/bin/sh
from=$(cat ${dir}/run/lineside-journal-cursor 2>/dev/null || echo 1)
tail -n +"$from" ${dir}/journal || exit
echo "$(($(wc -l <${dir}/journal) + 1))" >${dir}/run/lineside-journal-cursor
`;

interface Box {
  /** Adds lines to the journal, of 100 bytes each, and saves what is new. */
  readonly saves: (lines: number) => void;
  readonly kept: (name: 'current' | 'previous') => string[];
  readonly dir: string;
}

function box(t: TestContext): Box {
  const dir = temporaryDirectory(t);
  for (const name of ['bin', 'run', 'kept']) mkdirSync(join(dir, name));
  writeFileSync(join(dir, 'journal'), '');
  writeFileSync(join(dir, 'bin/journalctl'), journalctl(dir), { mode: 0o755 });
  const text = script
    .replaceAll('/var/lib/lineside-journal', join(dir, 'kept'))
    .replaceAll('/run/', `${dir}/run/`)
    .replace(/^limit_bytes=.*$/m, `limit_bytes=${limitBytes}`);
  let last = 0;
  return {
    dir,
    saves(lines) {
      const added = Array.from({ length: lines }, () => `${String(++last).padStart(5, '0')}${'.'.repeat(94)}\n`);
      writeFileSync(join(dir, 'journal'), added.join(''), { flag: 'a' });
      const ended = spawnSync('dash', ['-c', text], {
        encoding: 'utf8',
        env: { PATH: `${join(dir, 'bin')}:/usr/bin:/bin` },
      });
      assert.deepEqual([ended.status, ended.stderr], [0, '']);
    },
    kept(name) {
      const path = join(dir, `kept/${name}.log`);
      if (!existsSync(path)) return [];
      assert.ok(statSync(path).size <= limitBytes, `${name}.log has ${statSync(path).size} bytes`);
      return readFileSync(path, 'utf8')
        .trim()
        .split('\n')
        .map((line) => line.slice(0, 5));
    },
  };
}

test('new entries are added, and nothing is written without new entries', (t) => {
  const { saves, kept, dir } = box(t);
  saves(0);
  assert.ok(!existsSync(join(dir, 'kept/current.log')));
  saves(2);
  saves(1);
  assert.deepEqual(kept('current'), ['00001', '00002', '00003']);
});

test('the newest entries are kept if there is no room for all, and they are not saved again and again', (t) => {
  const { saves, kept } = box(t);
  saves(10_000);
  assert.equal(kept('current').at(-1), '10000');
  saves(1);
  assert.deepEqual([kept('previous').at(-1), kept('current')], ['10000', ['10001']]);
});

test('two files of the limit each are all there ever is', (t) => {
  const { saves, kept } = box(t);
  for (let round = 0; round < 8; round++) saves(4);
  const all = [...kept('previous'), ...kept('current')];
  assert.equal(all.at(-1), '00032');
  assert.ok(all.length >= 10, `${all.length} lines`);
});
