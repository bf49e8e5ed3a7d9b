/**
 * The first program of the root, its own lines run by a shell on a partition table and a file system in files: when the data
 * partition is made, when it is deleted, and that a plug pulled at any of its commands neither loses nor keeps data
 * against the order.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../src/shared/base/temporary.fixture.ts';

const root = join(import.meta.dirname, '../..');
const preinit = readFileSync(join(root, 'image/preinit'), 'utf8');
/** From the first function to the line that reports the state of the data partition. */
const part = /^say\(\)[\s\S]*?^echo "DATA=\$state".*$/m.exec(preinit)?.[0] ?? '';
const own = '0123456789abcdef0123456789abcdef';
const other = 'f'.repeat(32);
const path = '/usr/sbin:/usr/bin:/sbin:/bin';

/** Each counts itself and is what a plug is pulled before; mkfs.ext4 is cut in its middle, where the old content is gone. */
const commands = [
  'sfdisk',
  'mkfs.ext4',
  'dd',
  'rm',
  'sync',
  'mount',
  'umount',
  'partx',
  'resize2fs',
  'e2fsck',
  'blockdev',
];
const stub = `#!/bin/sh
name=\${0##*/}
echo "$name $*" >>"$LOG"
if [ "$(wc -l <"$LOG")" = "$CUT" ]; then
  for last; do :; done
  [ "$name" != mkfs.ext4 ] || PATH=${path} dd if=/dev/zero of="$last" bs=8192 count=1 conv=notrunc 2>/dev/null
  kill -9 "$MAIN"
  exit 1
fi
PATH=${path}
for last; do before=\${at:-}; at=$last; done
case "$name $*" in
  'sync'* | 'partx'* | 'resize2fs'*) ;;
  'mount -t ext4'*) dumpe2fs -h "$before" >/dev/null 2>&1 && debugfs -R "rdump / $at" "$before" 2>/dev/null ;;
  'mount -t tmpfs'*) : >"$at/memory" ;;
  'mount'*) ;;
  'blockdev'*) stat --format=%s "$at" ;;
  'umount'*) rm -rf "$at" && mkdir "$at" ;;
  "sfdisk"*"$FAULT"*) [ -z "$FAULT" ] && exec sfdisk "$@" ;;
  *) exec "$name" "$@" ;;
esac
`;

interface Card {
  at(name: string): string;
  /** Runs the part; `cut`: the plug is pulled at that command. Answers the commands that were begun. */
  start(options?: { cut?: number; fault?: string }): string[];
  type(): string;
  /** What lies on the data partition: whose it is, a file system that was just made, or none. */
  content(): string;
  digest(): string;
}

function card(t: TestContext, type: string): Card {
  const dir = temporaryDirectory(t);
  const at = (name: string): string => join(dir, name);
  for (const name of ['bin', 'boot', 'data', 'run', 'old/etc']) mkdirSync(at(name), { recursive: true });
  for (const name of commands) {
    writeFileSync(at(`bin/${name}`), stub, { mode: 0o755 });
  }
  const run = (command: string, input = ''): string => {
    const { status, stdout, stderr } = spawnSync('sh', ['-ec', command], {
      encoding: 'utf8',
      input,
      cwd: dir,
      env: { PATH: path },
    });
    assert.equal(status, 0, `${command}: ${stderr}`);
    return stdout.trim();
  };
  run('truncate --size=64M disk; truncate --size=16M disk4; truncate --size=1K disk1');
  run(
    'sfdisk --quiet disk',
    `label: dos\nstart=2048,size=2048,type=c\nstart=4096,size=2048\nstart=6144,size=2048\nstart=8192,size=32768,type=${type}\n`,
  );
  writeFileSync(at('old/etc/machine-id'), `${own}\n`);
  if (type === 'da') run('printf LINESIDE-NO-DATA | dd of=disk4 conv=notrunc status=none');
  else run('mkfs.ext4 -q -F -d old disk4');
  const script = part
    .replaceAll('>/dev/kmsg', `>>${at('kmsg')}`)
    .replaceAll('/boot/firmware', at('boot'))
    .replaceAll('/run/', at('run/'))
    .replaceAll(/ \/data\b/g, ` ${at('data')}`);
  return {
    at,
    start({ cut = 0, fault = '' } = {}) {
      writeFileSync(at('log'), '');
      writeFileSync(at('run/lineside-boot'), `DISK=${at('disk')}\nPART=${at('disk')}\nBOOT=yes\n`);
      rmSync(at('data'), { recursive: true });
      mkdirSync(at('data'));
      const env = { PATH: `${at('bin')}:${path}`, LOG: at('log'), CUT: String(cut), FAULT: fault };
      spawnSync('dash', ['-c', `MAIN=$$; export MAIN\n${script}`], { env });
      return readFileSync(at('log'), 'utf8').trim().split('\n');
    },
    type: () => run('sfdisk --part-type disk 4'),
    content: () =>
      run(
        'dumpe2fs -h disk4 >/dev/null 2>&1 || { echo none; exit; }; debugfs -R "cat etc/machine-id" disk4 2>/dev/null',
      ) || 'new',
    digest: () =>
      createHash('sha256')
        .update(readFileSync(at('disk4')))
        .digest('hex'),
  };
}

const state = (box: Card): string => /DATA=.*/.exec(readFileSync(box.at('run/lineside-boot'), 'utf8'))?.[0] ?? '';
const made = (begun: readonly string[]): boolean => begun.some((line) => line.startsWith('mkfs'));
const requested = (box: Card): boolean => existsSync(box.at('boot/factory-reset'));

test('an empty data partition is made at the first start, and never again', (t) => {
  assert.match(part, /make_data/, 'image/preinit is laid out otherwise now: is the pattern right?');
  const box = card(t, 'da');
  box.start();
  assert.deepEqual([state(box), box.type(), box.content()], ['DATA=ok', '83', 'new']);
  assert.ok(!made(box.start()));
});

test('a large card does not wait for a journal and inodes of its size', (t) => {
  const box = card(t, 'da');
  truncateSync(box.at('disk4'), 2 * 1024 ** 3);
  box.start();
  assert.deepEqual([state(box), box.content()], ['DATA=ok', 'new']);
  const { stdout } = spawnSync('dumpe2fs', ['-h', box.at('disk4')], { encoding: 'utf8', env: { PATH: path } });
  assert.match(stdout, /^Total journal size: +8M$/m);
  // One for 128 KiB.
  assert.match(stdout, /^Inode count: +16384$/m);
});

test('a plug pulled at any command of the first start leaves a partition that the next one makes', (t) => {
  for (let cut = 1; ; cut++) {
    const box = card(t, 'da');
    if (box.start({ cut }).length < cut) break;
    box.start();
    assert.deepEqual([state(box), box.type(), box.content()], ['DATA=ok', '83', 'new'], `cut at ${cut}`);
  }
});

test('a partition that cannot be marked as whole is not used: the next start would delete its data', (t) => {
  const box = card(t, 'da');
  box.start({ fault: '4 83' });
  assert.deepEqual([state(box), box.type()], ['DATA=lost', 'da']);
  assert.ok(existsSync(box.at('data/memory')));
  box.start();
  assert.deepEqual([state(box), box.type()], ['DATA=ok', '83']);
});

test('data that lie on the card stay as they are, also where they cannot be read', (t) => {
  const box = card(t, '83');
  box.start();
  assert.deepEqual([state(box), box.content()], ['DATA=ok', own]);
  // All copies of the superblock.
  writeFileSync(box.at('disk4'), Buffer.alloc(16 * 1024 * 1024, 'x'));
  const before = box.digest();
  box.start();
  assert.deepEqual([state(box), box.digest(), box.type()], ['DATA=lost', before, '83']);
});

test('data of a card that was copied to a smaller one are not destroyed by a repair', (t) => {
  const box = card(t, '83');
  truncateSync(box.at('disk4'), 8 * 1024 * 1024);
  const before = box.digest();
  box.start();
  assert.deepEqual([state(box), box.digest(), box.type()], ['DATA=lost', before, '83']);
  assert.match(readFileSync(box.at('kmsg'), 'utf8'), /of a larger card/);
});

test('a factory reset that names this box deletes all data, once', (t) => {
  const box = card(t, '83');
  writeFileSync(box.at('boot/factory-reset'), `${own}\n`);
  box.start();
  assert.deepEqual([state(box), box.content(), box.type(), requested(box)], ['DATA=ok', 'new', '83', false]);
  assert.ok(!made(box.start()));
});

test('a plug pulled at any command of a factory reset: the next start finishes it', (t) => {
  for (let cut = 1; ; cut++) {
    const box = card(t, '83');
    writeFileSync(box.at('boot/factory-reset'), `${own}\n`);
    if (box.start({ cut }).length < cut) break;
    box.start();
    const found = [state(box), box.content(), box.type(), requested(box)];
    assert.deepEqual(found, ['DATA=ok', 'new', '83', false], `cut at ${cut}`);
  }
});

for (const [name, request] of [
  ['of another box', `${other}\n`],
  ['that was cut short', own.slice(0, 8)],
  ['that is empty', ''],
]) {
  test(`a factory reset ${name} is reported, removed and not obeyed`, (t) => {
    const box = card(t, '83');
    writeFileSync(box.at('boot/factory-reset'), request ?? '');
    box.start();
    assert.deepEqual([state(box), box.content(), requested(box)], ['DATA=ok', own, false]);
    assert.match(readFileSync(box.at('kmsg'), 'utf8'), /not for this box/);
  });
}

test('a box whose data have no machine id obeys no request', (t) => {
  const box = card(t, '83');
  rmSync(box.at('old/etc/machine-id'));
  spawnSync('mkfs.ext4', ['-q', '-F', '-d', box.at('old'), box.at('disk4')], { env: { PATH: path } });
  writeFileSync(box.at('boot/factory-reset'), '\n');
  assert.deepEqual([made(box.start()), requested(box)], [false, false]);
});

/** What is kept on the data partition, below a directory; `cp` is the one that fails where there is no room. */
function keep(t: TestContext, cp: string): { at: (name: string) => string; start: (cp: string) => void } {
  const keeping = /^keep_directory\(\)[\s\S]*?^new_hostname.*$/m.exec(preinit)?.[0] ?? '';
  const dir = temporaryDirectory(t);
  const at = (name: string): string => join(dir, name);
  for (const name of ['etc/one/two', 'data']) mkdirSync(at(name), { recursive: true });
  for (const name of ['etc/one/first', 'etc/one/two/second']) writeFileSync(at(name), name);
  const start = (command: string): void => {
    const text = `say() { :; }
      sync() { :; }
      mount() { echo "$2" >>${at('mounted')}; }
      ${command}
      ${keeping.replaceAll('"/', `"${dir}/`)}
      keep_directory etc/one; keep_directory var/new; keep_file etc/machine-id new_machine_id`;
    writeFileSync(at('mounted'), '');
    const { stderr } = spawnSync('dash', ['-c', text], { encoding: 'utf8', env: { PATH: path } });
    assert.equal(stderr, '');
  };
  start(cp);
  return { at, start };
}

test("a full data partition keeps nothing by halves: the directory is the image's until there is room", (t) => {
  const { at, start } = keep(t, `cp() { mkdir "$3" && command cp "$2/first" "$3/" 2>/dev/null; return 1; }`);
  const mounted = (): string[] => readFileSync(at('mounted'), 'utf8').trim().split('\n');
  assert.ok(!existsSync(at('data/etc/one')) && !existsSync(at('data/etc/one.new')));
  assert.ok(existsSync(at('var/new')));
  assert.deepEqual(mounted(), [at('data/etc/machine-id')]);
  start('');
  assert.ok(existsSync(at('data/etc/one/two/second')));
  assert.deepEqual(
    mounted(),
    ['etc/one', 'var/new', 'etc/machine-id'].map((name) => at(`data/${name}`)),
  );
  const id = readFileSync(at('data/etc/machine-id'), 'utf8');
  assert.match(id, /^[0-9a-f]{32}\n$/);
  start('');
  assert.equal(readFileSync(at('data/etc/machine-id'), 'utf8'), id);
});
