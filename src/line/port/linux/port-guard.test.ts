import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { LinesideError } from '../../../shared/base/errors.ts';
import { temporaryDirectory } from '../../../shared/base/temporary.fixture.ts';
import { lockFileHolder, lockPid, openError, openHolder } from './port-guard.ts';

test('reads both forms of a lock file, and nothing else', () => {
  const binary = Buffer.alloc(4);
  binary.writeInt32LE(4242);
  assert.equal(lockPid(Buffer.from('      4242\n')), 4242);
  assert.equal(lockPid(Buffer.from('4242 minicom root\n')), 4242);
  assert.equal(lockPid(binary), 4242);
  for (const garbage of ['', 'x', '-5\n', '0\n', '\0\0\0\0', '99999999999\n'])
    assert.equal(lockPid(Buffer.from(garbage)), undefined);
});

test('a lock file counts only while its process lives', async (t) => {
  const directory = temporaryDirectory(t);
  const lock = join(directory, 'LCK..ttyUSB7');
  assert.equal(await lockFileHolder('/dev/ttyUSB7', directory), undefined);
  const child = spawn('sleep', ['60']);
  await once(child, 'spawn');
  await writeFile(lock, `${String(child.pid).padStart(10)}\n`);
  assert.equal(await lockFileHolder('/dev/ttyUSB7', directory), `process ${child.pid} (sleep)`);
  child.kill('SIGKILL');
  await once(child, 'exit');
  assert.equal(await lockFileHolder('/dev/ttyUSB7', directory), undefined);
  await writeFile(lock, `${process.pid}\n`);
  assert.equal(await lockFileHolder('/dev/ttyUSB7', directory), undefined, 'its own lock is no other process');
});

test('finds who has a path open, among processes that vanish and cannot be read', async (t) => {
  const proc = temporaryDirectory(t);
  await mkdir(join(proc, '11'));
  await mkdir(join(proc, '12/fd'), { recursive: true });
  await symlink('/dev/ttyUSB7', join(proc, '12/fd/3'));
  await writeFile(join(proc, '12/comm'), 'minicom\n');
  await writeFile(join(proc, 'uptime'), '');
  assert.equal(await openHolder('/dev/ttyUSB7', proc), 'process 12 (minicom)');
  assert.equal(await openHolder('/dev/ttyUSB8', proc), undefined);
  await writeFile(join(proc, '12/comm'), 'MainThread\n');
  await writeFile(join(proc, '12/cmdline'), '/usr/bin/node\0server.js\0');
  assert.equal(await openHolder('/dev/ttyUSB7', proc), 'process 12 (node)', 'Node names its main thread, not itself');
});

const system = (code: string): Error => Object.assign(new Error(`${code}: open`), { code });
const rows: readonly (readonly [unknown, string])[] = [
  [system('ENOENT'), 'PORT_NOT_FOUND'],
  [system('ENXIO'), 'PORT_NOT_FOUND'],
  [system('ENODEV'), 'PORT_NOT_FOUND'],
  [system('EACCES'), 'PORT_PERMISSION'],
  [system('EPERM'), 'PORT_PERMISSION'],
  [system('EBUSY'), 'PORT_BUSY'],
  [system('ENOTTY'), 'PORT_IO'],
  [system('EIO'), 'PORT_IO'],
  [new Error('Error: No such file or directory, cannot open /dev/x'), 'PORT_NOT_FOUND'],
  [new Error('Error: Permission denied, cannot open /dev/x'), 'PORT_PERMISSION'],
  [new Error('Error: Is a directory, cannot open /dev/x'), 'PORT_IO'],
  [new Error('Error: Inappropriate ioctl for device setting custom baud rate of 9600'), 'PORT_IO'],
  [new Error('Error Resource temporarily unavailable Cannot lock port'), 'PORT_BUSY'],
  [new Error('something new'), 'PORT_IO'],
  ['not even an error', 'PORT_IO'],
];

for (const [thrown, code] of rows)
  test(`${String(thrown)} is ${code}`, () => {
    const error = openError('/dev/x', thrown);
    assert.equal(error.code, code);
    assert.match(error.message, /\/dev\/x/);
  });

test('says who holds the port, and what to do about a permission', () => {
  assert.match(openError('/dev/x', system('EBUSY'), 'process 12 (minicom)').message, /process 12 \(minicom\) holds it/);
  assert.match(openError('/dev/x', system('EACCES')).hint, /dialout/);
});

test('an error of the catalogue stays what it is', () => {
  const error = new LinesideError('SETTING_REFUSED', 'x');
  assert.equal(openError('/dev/x', error), error);
});
