import assert from 'node:assert/strict';
import { statSync, writeFileSync } from 'node:fs';
import { afterEach, beforeEach, test } from 'node:test';
import { realDisk } from './disk.ts';
import { dyingDisk, newTrial, PlugPulled, type Trial } from './setup/box.fixture.ts';
import { type Change, commit, finish } from './transaction.ts';

const change = (place: string, content: string | undefined): Change => ({
  place,
  content,
  mode: 0o640,
  group: 'lineside',
});
const changes = [
  change('/etc/a', 'new a'),
  change('/etc/deep/er/b', 'new b'),
  change('/etc/gone', undefined),
  change('/etc/c', 'new c'),
];
const before = ['old a', undefined, 'old gone', 'old c'];
const after = ['new a', 'new b', undefined, 'new c'];

let trial: Trial;
beforeEach(() => {
  trial = boxBefore();
});
afterEach(() => trial[Symbol.dispose]());

function boxBefore(): Trial {
  const made = newTrial();
  for (const [name, text] of [
    ['a', 'old a'],
    ['gone', 'old gone'],
    ['c', 'old c'],
  ] as const) {
    writeFileSync(made.box.path(`/etc/${name}`), text);
  }
  return made;
}
const now = (of: Trial) => changes.map(({ place }) => of.box.text(place));

test('files are changed, made with their directories, and removed as one, with mode and group', () => {
  writeFileSync(trial.box.path('/etc/group'), 'root:x:0:\nlineside:x:4711:\n');
  commit(trial.box, realDisk, changes);
  assert.deepEqual(now(trial), after);
  const status = statSync(trial.box.path('/etc/deep/er/b'));
  assert.equal(status.mode & 0o777, 0o640);
  if (process.getuid?.() === 0) assert.equal(status.gid, 4711);
  assert.equal(finish(trial.box, realDisk), false, 'nothing is left to do');
});

test('cut at any step, finish() finds all of it to be done or nothing', () => {
  const kinds = new Set<string>();
  for (let steps = 1; ; steps++) {
    using cut = boxBefore();
    const disk = dyingDisk(steps, true);
    let done = true;
    try {
      commit(cut.box, disk, changes);
    } catch (error) {
      assert.ok(error instanceof PlugPulled);
      done = false;
    }
    finish(cut.box, realDisk);
    const found = now(cut);
    const isOld = JSON.stringify(found) === JSON.stringify(before);
    assert.ok(isOld || JSON.stringify(found) === JSON.stringify(after), `step ${steps}: ${found.join(', ')}`);
    kinds.add(isOld ? 'old' : 'new');
    if (done) break;
  }
  assert.deepEqual([...kinds], ['old', 'new']);
});

test('files that are in place already are not written again', () => {
  commit(trial.box, realDisk, changes);
  const inode = statSync(trial.box.path('/etc/a')).ino;
  commit(trial.box, realDisk, [change('/etc/a', 'new a')]);
  assert.equal(statSync(trial.box.path('/etc/a')).ino, inode);
});

test('a file that is a mount point in a read-only directory is written where it stands', () => {
  const failing = (code: string) => (): never => {
    throw Object.assign(new Error(code), { code });
  };
  for (const [step, code] of [
    ['rename', 'EBUSY'],
    ['write', 'EROFS'],
  ] as const) {
    const disk = { ...realDisk };
    const real = realDisk[step] as (...args: unknown[]) => void;
    const isHere = (path: unknown): boolean => typeof path === 'string' && path.endsWith('/etc/.a.new');
    Object.assign(disk, { [step]: (...args: unknown[]) => (isHere(args[0]) ? failing(code)() : real(...args)) });
    commit(trial.box, disk, [change('/etc/a', `by ${step}`)]);
    assert.equal(trial.box.text('/etc/a'), `by ${step}`);
  }
});
