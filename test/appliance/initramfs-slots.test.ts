/** The initramfs counts the starts of a slot on trial as the command line does: its own lines, run by a shell, on the same table. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

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

for (const [command = '', ...args] of shells) {
  test(`the initramfs under ${[command, ...args].join(' ')} does with every slot.txt what the table says`, (t) => {
    assert.match(counting, /left=/, 'image/initramfs/init counts elsewhere now: is the pattern right?');
    const dir = mkdtempSync(join(tmpdir(), 'lineside-initramfs-'));
    t.after(() => rmSync(dir, { recursive: true, force: true }));
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
