/** The initramfs counts the starts of a slot on trial as the command line does: its own lines, run by a shell, on the same table. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';

const root = join(import.meta.dirname, '../..');
const { states } = JSON.parse(readFileSync(join(import.meta.dirname, 'slot-states.json'), 'utf8')) as {
  readonly states: readonly { name: string; own: string; text: string; go: string; trying: boolean; after: string }[];
};
const init = readFileSync(join(root, 'image/initramfs/init'), 'utf8');
/** From the function that writes slot.txt to the first thing that is done with the slot's root. */
const counting = /^write_slots\(\) \{[\s\S]*?(?=^partition_of\(\))/m.exec(init)?.[0] ?? '';

const shells = [['dash'], ['/usr/bin/busybox', 'sh']].filter(
  ([command = '']) => !command.startsWith('/') || existsSync(command),
);

/** From the first thing that is done with the slot's root to the facts that are left for the root. */
const mounting = /^partition_of\(\)[\s\S]*?(?=^printf 'SLOT=)/m.exec(init)?.[0] ?? '';

/** The roots that can be mounted, each at the nth time: what becomes of a start of slot a, which is the good one. */
function startOfGood(command: readonly string[], at: { readonly a: number; readonly b: number }): string {
  const [shell = '', ...args] = command;
  const prepared = `
    say() { :; }
    sleep() { :; }
    umount() { :; }
    mount() { case $5 in /dev/x2) a=$((a + 1)); [ $a -ge ${at.a} ] ;; *) b=$((b + 1)); [ $b -ge ${at.b} ] ;; esac; }
    write_slots() { echo "good $1"; }
    start_again() { echo reboot; exit; }
    a=0 b=0 slot=a trying=no part=/dev/x
    ${mounting.replaceAll('[ -x "/root$preinit" ]', 'true')}
    echo on $slot`;
  return spawnSync(shell, [...args, '-c', prepared], { encoding: 'utf8' })
    .stdout.trim()
    .replaceAll('\n', ', ');
}

for (const [command = '', ...args] of shells) {
  test(`under ${[command, ...args].join(' ')} the good slot is replaced by the other one if it cannot be read, not where it could not once`, () => {
    const shell = [command, ...args];
    const never = Number.MAX_SAFE_INTEGER;
    assert.equal(startOfGood(shell, { a: 1, b: 1 }), 'on a');
    assert.equal(startOfGood(shell, { a: 2, b: 1 }), 'on a');
    assert.equal(startOfGood(shell, { a: never, b: 1 }), 'good b, reboot');
    assert.equal(startOfGood(shell, { a: never, b: never }), 'reboot');
  });

  test(`the initramfs under ${[command, ...args].join(' ')} does with every slot.txt what the table says`, (t) => {
    assert.match(counting, /left=/, 'image/initramfs/init counts elsewhere now: is the pattern right?');
    const dir = temporaryDirectory(t);
    const file = join(dir, 'slot.txt');
    const prepared = `
      say() { :; }
      mount() { :; }
      start_again() { echo reboot yes; exit; }
      slot=$1 boot=yes
      ${counting.replaceAll('/boot/slot.txt', file)}
      echo on $trying $failed`;
    for (const { name, own, text, go, trying, after } of states) {
      writeFileSync(file, text);
      const { stdout, stderr } = spawnSync(command, [...args, '-c', prepared, 'init', own], { encoding: 'utf8' });
      const failed = go === 'on' && !trying ? (/^#failed=(.)/m.exec(after)?.[1] ?? '') : '';
      assert.deepEqual(
        [stdout.replace(/ *\n/, ''), stderr],
        [`${go} ${trying ? 'yes' : 'no'} ${failed}`.trimEnd(), ''],
        name,
      );
      assert.equal(readFileSync(file, 'utf8'), after, name);
    }
  });
}
