import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  statfsSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { type ErrorCode, LinesideError } from '../../shared/base/errors.ts';
import { mountSmall } from '../../shared/base/small-disk.fixture.ts';
import { killedAt } from '../killed.fixture.ts';
import { markGood, requestFactoryReset } from './boot-partition.ts';
import { onTrial, parseSlots, renderSlots, settled } from './slots.ts';
import { boxIn, newRoot, slotBytes, type TestBox, testBox } from './update.fixture.ts';

const refusedAs = (code: ErrorCode, message: RegExp) => ({ name: LinesideError.name, code, message });

function slotText(box: TestBox): string {
  return readFileSync(box.at('boot/slot.txt'), 'latin1');
}

function assertInstalled(box: TestBox, slot: 'a' | 'b'): void {
  const root = readFileSync(box.at(`root-${slot}`));
  assert.ok(root.subarray(0, newRoot.length).equals(newRoot), 'the root is the new one');
  assert.equal(root.length, slotBytes, 'the partition is as long as it was');
  const names = readdirSync(box.at(`boot/${slot}`), { recursive: true, encoding: 'utf8' }).sort();
  assert.deepEqual(names, [
    'cmdline.txt',
    'initrd',
    'overlays',
    'overlays/README',
    'overlays/lineside-uart.dtbo',
    'vmlinuz',
  ]);
  assert.deepEqual(readFileSync(box.at(`boot/${slot}/initrd`)), readFileSync(box.at('new-boot/initrd')));
  assert.match(
    readFileSync(box.at(`boot/${slot}/cmdline.txt`), 'utf8'),
    new RegExp(`^\\S+ lineside.slot=${slot} .*\n$`),
  );
  assert.equal(slotText(box), renderSlots(onTrial(slot === 'a' ? 'b' : 'a')));
}

for (const running of ['a', 'b'] as const) {
  test(`with ${running} running an update goes to the other slot, is tried next, and the running one stays as it is`, (t) => {
    const box = testBox(t, running);
    const before = box.runningBytes();
    const seen = new Set<string>();
    const file = box.bundle();
    const untouched = everything(box);
    assert.deepEqual([box.check(file).slot, everything(box)], [running === 'a' ? 'b' : 'a', untouched]);
    const { slot, manifest } = box.install(file, { onProgress: (what) => seen.add(what) });
    assert.deepEqual([slot, manifest.version], [running === 'a' ? 'b' : 'a', '1.3.0']);
    assertInstalled(box, slot);
    assert.equal(box.runningBytes(), before);
    assert.deepEqual(box.remounts, ['rw', 'ro']);
    assert.deepEqual([...seen], ['verifying the bundle', 'writing the root', 'reading it back']);
  });
}

test('the same inputs give the same bundle, byte by byte', (t) => {
  const box = testBox(t);
  const first = readFileSync(box.bundle());
  assert.ok(first.equals(readFileSync(box.bundle())));
});

test('a kernel command line of the bundle gets the name of its slot', (t) => {
  const box = testBox(t);
  writeFileSync(box.at('new-boot/cmdline.txt'), 'console=tty0 lineside.slot=SLOT panic=20\n');
  box.install(box.bundle());
  assert.equal(readFileSync(box.at('boot/b/cmdline.txt'), 'utf8'), 'console=tty0 lineside.slot=b panic=20\n');
});

test('after a trial that came up the slot is good, and the next update goes to the other one', (t) => {
  const box = testBox(t);
  box.install(box.bundle());
  writeFileSync(box.at('facts'), 'SLOT=b\nTRYING=yes\n');
  const next = boxIn(box.dir, 'b');
  assert.throws(() => next.install(next.bundle()), refusedAs('CONFLICT', /slot b is on trial/));
  assert.deepEqual(markGood(next.target), { slot: 'b', wasGood: false });
  assert.deepEqual(markGood(next.target), { slot: 'b', wasGood: true });
  // The hub, which does not see slot.txt, waits for that.
  assert.equal(readFileSync(box.at('facts'), 'utf8'), 'SLOT=b\nTRYING=no\n');
  // How the start began is no longer how it is.
  assert.equal(next.install(next.bundle()).slot, 'a');
  assertInstalled(next, 'a');
});

test('an update that was installed and not tried yet is replaced, and cannot be started meanwhile', (t) => {
  const box = testBox(t);
  box.install(box.bundle());
  const stopped = (step: string): void => {
    if (step === 'root') throw new Error('pulled');
  };
  assert.throws(() => box.install(box.bundle(), { onStep: stopped }), /pulled/);
  assert.deepEqual(parseSlots(slotText(box)), settled('a'));
  box.install(box.bundle());
  assertInstalled(box, 'b');
});

for (const [name, code, about, prepare] of [
  [
    'the signature of another key',
    'PERMISSION_DENIED',
    /not signed/,
    (box) => {
      const file = box.bundle();
      spawnSync('openssl', ['genpkey', '-algorithm', 'ed25519', '-out', box.at('other.key')]);
      spawnSync('openssl', ['pkey', '-in', box.at('other.key'), '-pubout', '-out', box.at('update.pub')]);
      return file;
    },
  ],
  ['another board', 'CONFLICT', /is for amd64-pc/, (box) => box.bundle({ board: 'amd64-pc' })],
  ['an older version', 'CONFLICT', /older than the 1\.2\.0/, (box) => box.bundle({ version: '1.2.0-rc.1' })],
  [
    'a root larger than the slot',
    'TOO_LARGE',
    /slot b takes/,
    (box) => {
      truncateSync(box.at('root-b'), 2 * 1024 * 1024);
      return box.bundle();
    },
  ],
  ['one byte less', 'MALFORMED', /cut short/, (box) => resized(box.bundle(), -1)],
  ['the first line alone', 'MALFORMED', /cut short|begin/, (box) => resized(box.bundle(), 20, true)],
  ['one byte more', 'MALFORMED', /follows its end/, (box) => resized(box.bundle(), 1)],
  ['an empty file', 'MALFORMED', /begin/, (box) => resized(box.bundle(), 0, true)],
  [
    'a later format',
    'MALFORMED',
    /format 2/,
    (box) => changed(box.bundle(), (bytes) => bytes.write('lineside-update 2', 'latin1')),
  ],
  [
    'two names that are one on FAT',
    'MALFORMED',
    /twice/,
    (box) => {
      writeFileSync(box.at('new-boot/VMLINUZ'), 'another');
      return box.bundle();
    },
  ],
] as const satisfies readonly (readonly [string, ErrorCode, RegExp, (box: TestBox) => string])[]) {
  test(`refused before anything is written: ${name}`, (t) => {
    const box = testBox(t);
    const file = prepare(box);
    const before = everything(box);
    assert.throws(() => box.check(file), refusedAs(code, about));
    assert.throws(() => box.install(file), refusedAs(code, about));
    assert.equal(everything(box), before);
    assert.deepEqual(box.remounts, []);
  });
}

test('any single bit that is another one is refused before anything is written', (t) => {
  const box = testBox(t);
  const file = box.bundle();
  const whole = readFileSync(file);
  const before = everything(box);
  const places = [0, 17, 20, 22, 30, 80, 90, 150, 300, 450, 700, 1_000, 100_000, whole.length - 600, whole.length - 1];
  for (const at of places) {
    const broken = Buffer.from(whole);
    broken[at] = (broken[at] ?? 0) ^ (1 << (at % 8));
    writeFileSync(file, broken);
    assert.throws(() => box.install(file), LinesideError, `bit of byte ${at}`);
    assert.equal(everything(box), before);
  }
});

test('a downgrade that is asked for is installed', (t) => {
  const box = testBox(t);
  assert.equal(box.install(box.bundle({ version: '1.1.9' }), { allowDowngrade: true }).manifest.version, '1.1.9');
});

test('a bundle that lies on a failing medium is found out, and nothing is switched', (t) => {
  const box = testBox(t);
  const file = box.bundle();
  const flip = (step: string): void => {
    if (step === 'root') changed(file, (bytes) => bytes.write('X', bytes.length - 3_000_000));
  };
  assert.throws(() => box.install(file, { onStep: flip }), refusedAs('MALFORMED', /read differently/));
  assert.deepEqual(parseSlots(slotText(box)), settled('a'));
});

test('boot files that change after verification are not started: they are not signed', (t) => {
  const box = testBox(t);
  const file = box.bundle();
  const flip = (step: string): void => {
    // The middle of the first file that has a content, behind the head and its own header.
    if (step === 'boot') changed(file, (bytes) => bytes.write('X', bytes.indexOf('ustar') + 2_000));
  };
  assert.throws(() => box.install(file, { onStep: flip }), refusedAs('MALFORMED', /read differently/));
  assert.deepEqual(parseSlots(slotText(box)), settled('a'));
});

test('a card that does not keep what is written is found out, and nothing is switched', (t) => {
  const box = testBox(t);
  let pieces = 0;
  // Behind the back of the install, after its last write and before it reads back.
  const forget = (step: string): void => {
    if (step === 'writing the root' && ++pieces === 4)
      changed(box.at('root-b'), (bytes) => bytes.fill(0, 1 << 20, 2 << 20));
  };
  assert.throws(() => box.install(box.bundle(), { onStep: forget }), refusedAs('STORAGE_FAILED', /does not hold/));
  assert.deepEqual(parseSlots(slotText(box)), settled('a'));
});

test('a box without a key, or not started from slots, takes no update and says why', (t) => {
  const box = testBox(t);
  const file = box.bundle();
  const { target } = box;
  const at = (differing: Partial<typeof target>) => () => box.install(file, { target: { ...target, ...differing } });
  assert.throws(
    at({ keyFile: box.at('none') }),
    refusedAs('CONFIG_INVALID', /cannot read the key .*: there is no such file/),
  );
  assert.throws(at({ factsFile: box.at('none') }), refusedAs('UNSUPPORTED', /not started from slots/));
  assert.throws(at({ bootDir: box.at('none') }), refusedAs('UNSUPPORTED', /no slots/));
});

test('killed at any step: what runs is unharmed, the other slot is not started unless it is whole, and a second run succeeds', (t) => {
  const all = cutAt(testBox(t), 1_000).steps;
  assert.ok(all.length > 10, 'hardly any step was seen');
  for (const [index, last] of all.entries()) {
    const box = testBox(t);
    const before = box.runningBytes();
    assert.equal(cutAt(box, index + 1).signal, 'SIGKILL');
    assert.equal(box.runningBytes(), before);
    assert.deepEqual(parseSlots(slotText(box)), last === 'done' ? onTrial('a') : settled('a'), `killed at ${last}`);
    // The file system's own mark stands in the first piece: half a root has none.
    if (last === 'writing the root') assert.equal(readFileSync(box.at('root-b'))[1_024], 0);
    box.install(box.at('new.update'));
    assertInstalled(box, 'b');
  }
});

/** Installs until the nth step; the steps that were begun. */
function cutAt(box: TestBox, nth: number): ReturnType<typeof killedAt> {
  box.bundle();
  return killedAt(
    nth,
    `import { boxIn } from './src/appliance/update/update.fixture.ts';
    const box = boxIn(${JSON.stringify(box.dir)}, 'a');
    box.install(box.at('new.update'), { onStep });`,
  );
}

function everything(box: TestBox): string {
  const files = ['root-a', 'root-b', 'boot/slot.txt', 'boot/a/vmlinuz', 'boot/b/vmlinuz', 'boot/b/cmdline.txt'];
  return files.map((file) => `${statSync(box.at(file)).mtimeMs} ${readFileSync(box.at(file), 'latin1')}`).join('\n');
}

function resized(file: string, bytes: number, absolute = false): string {
  truncateSync(file, absolute ? bytes : statSync(file).size + bytes);
  return file;
}

function changed(file: string, change: (bytes: Buffer) => unknown): string {
  const bytes = readFileSync(file);
  change(bytes);
  // In place: the partition is open.
  writeFileSync(file, bytes, { flag: 'r+' });
  return file;
}

test('boot files need room for the clusters that they take, and the old files of the slot make room for them', (t) => {
  // mountSmall() removes it, after the unmount.
  const bootDir = mkdtempSync(join(tmpdir(), 'lineside-boot-'));
  const box = testBox(t);
  if (!mountSmall(t, bootDir, 'size=2700k')) return;
  cpSync(box.at('boot'), bootDir, { recursive: true });
  mkdirSync(join(bootDir, 'b/old'));
  writeFileSync(join(bootDir, 'b/old/file'), Buffer.alloc(1 << 20));
  for (let i = 0; i < 100; i++) writeFileSync(box.at(`new-boot/overlays/${i}.dtbo`), 'overlay');
  const file = box.bundle();
  const target = { ...box.target, bootDir };
  const before = readdirSync(bootDir, { recursive: true, encoding: 'utf8' });
  assert.throws(
    () => box.install(file, { target }),
    refusedAs('STORAGE_FULL', /the boot files need \d+ bytes, the boot partition has \d+$/),
  );
  assert.deepEqual(readdirSync(bootDir, { recursive: true, encoding: 'utf8' }), before);
  const { bavail, bsize } = statfsSync(bootDir);
  const [boot] = box.install(file).manifest.parts;
  assert.ok(boot.bytes < bavail * bsize + (1 << 20), 'the tar file would have fit');
  spawnSync('mount', ['-o', 'remount,size=3200k', bootDir]);
  box.install(file, { target });
  assert.ok(!existsSync(join(bootDir, 'b/old')));
});

const machineId = '0123456789abcdef0123456789abcdef';

test('the request for a factory reset names this box, and the boot partition is read-only again', (t) => {
  const box = testBox(t);
  writeFileSync(box.at('machine-id'), `${machineId}\n`);
  requestFactoryReset(box.target, box.at('machine-id'));
  assert.equal(readFileSync(box.at('boot/factory-reset'), 'utf8'), `${machineId}\n`);
  assert.deepEqual(box.remounts, ['rw', 'ro']);
});

test('without an image or a box id no factory reset is requested', (t) => {
  const box = testBox(t);
  writeFileSync(box.at('machine-id'), '\n');
  assert.throws(() => requestFactoryReset(box.target, box.at('machine-id')), {
    code: 'NOT_READY',
  });
  writeFileSync(box.at('machine-id'), machineId);
  assert.throws(() => requestFactoryReset({ ...box.target, factsFile: box.at('none') }, box.at('machine-id')), {
    code: 'UNSUPPORTED',
  });
  assert.ok(!existsSync(box.at('boot/factory-reset')));
});
