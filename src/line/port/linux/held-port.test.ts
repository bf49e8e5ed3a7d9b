/** Ports that may not be opened: held by another process, or no ports at all. Nothing about them may change. */

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { temporaryDirectory } from '../../../shared/base/temporary.fixture.ts';
import { Parity, StopBits } from '../line-config.ts';
import type { Pty } from '../simulated/simulated-line.ts';
import { eightNone, openDescriptors, openRig, ptyOf, ptyPort, watchedBy } from './pty-rig.fixture.ts';
import { openTty } from './tty.ts';
import { getTermios, isExclusive } from './tty-ioctl.ts';

const settings = { baudRate: 300, dataBits: 7, parity: Parity.even, stopBits: StopBits.two, flowControl: 0 } as const;

/** Another program with the port open, which has done what the Python lines say to its `fd`. */
async function holder(t: TestContext, pty: Pty, lines: string): Promise<ChildProcess> {
  const script = `
import fcntl, os, sys, termios
fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
${lines}
print("held", flush=True)
sys.stdin.read()
`;
  const child = spawn('python3', ['-c', script, pty.slavePath], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  });
  await once(child.stdout, 'data');
  return child;
}

const holds: readonly (readonly [string, string])[] = [
  ['flock', 'fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)'],
  ['TIOCEXCL', 'fcntl.ioctl(fd, termios.TIOCEXCL)'],
];

for (const [how, lines] of holds)
  test(`a port that another process holds by ${how} keeps its settings, and the holder is named`, async (t) => {
    const pty = ptyOf(t);
    const child = await holder(t, pty, lines);
    const fd = watchedBy(t, pty);
    const former = getTermios(fd);
    await assert.rejects(openTty(ptyPort(pty), settings), {
      code: 'PORT_BUSY',
      message: new RegExp(`${child.pid} \\(python3`),
    });
    assert.deepEqual(getTermios(fd), former);
  });

test('a port left exclusive by a killed process can be opened again', async (t) => {
  const pty = ptyOf(t);
  const child = await holder(t, pty, 'fcntl.ioctl(fd, termios.TIOCEXCL); fcntl.flock(fd, fcntl.LOCK_EX)');
  child.kill('SIGKILL');
  await once(child, 'exit');
  const device = await openTty(ptyPort(pty), eightNone);
  await device.close();
});

test('another program can neither take the lock nor open the port while it is open', async (t) => {
  const { pty, device } = await openRig(t);
  const fd = watchedBy(t, pty);
  // What keeps all but root out.
  assert.equal(isExclusive(fd), true);
  const script =
    'import fcntl, os, sys\nfcntl.flock(os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY), fcntl.LOCK_EX | fcntl.LOCK_NB)';
  const child = spawn('python3', ['-c', script, pty.slavePath], { stdio: 'ignore' });
  const [status] = await once(child, 'exit');
  assert.notEqual(status, 0);
  await device.close();
  assert.equal(isExclusive(fd), false);
});

test('a setting that the driver drops is named, and the line gets its former settings back', async (t) => {
  const pty = ptyOf(t);
  const fd = watchedBy(t, pty);
  const former = getTermios(fd);
  const descriptors = openDescriptors();
  // A PTY taken for a real port: its driver keeps neither data bits nor parity, as some real ones.
  const port = { ...ptyPort(pty), isPty: false };
  const rows = [
    [{ ...eightNone, dataBits: 7 }, /data bits: asked 7, got 8/],
    [{ ...eightNone, parity: Parity.even }, /parity: asked even, got none/],
    [{ ...eightNone, parity: Parity.space }, /parity: asked space, got none/],
  ] as const;
  for (const [asked, message] of rows) await assert.rejects(openTty(port, asked), { code: 'SETTING_REFUSED', message });
  assert.deepEqual(getTermios(fd), former);
  assert.equal(isExclusive(fd), false);
  assert.equal(openDescriptors(), descriptors);
  const device = await openTty(port, { ...eightNone, stopBits: StopBits.two, baudRate: 31_250 });
  const { dataBits, parity, stopBits, baudRate, unverified } = device.effective;
  assert.deepEqual([dataBits, parity, stopBits, baudRate, unverified], [8, Parity.none, StopBits.two, 31_250, false]);
  await device.close();
});

test('a file that is not a serial port is refused and not changed', async (t) => {
  const directory = temporaryDirectory(t);
  const file = join(directory, 'file');
  await writeFile(file, 'content');
  const rows: readonly (readonly [string, string, RegExp])[] = [
    [file, 'PORT_IO', /not a device/],
    ['/etc/shadow', 'PORT_IO', /not a device/],
    [directory, 'PORT_IO', /a directory/],
    ['/dev/null', 'PORT_IO', /kind "mem"/],
    ['/dev/ptmx', 'PORT_IO', /a terminal or console/],
    ['/dev/tty0', 'PORT_IO', /a terminal or console/],
    [join(directory, 'none'), 'PORT_NOT_FOUND', /no such port/],
    ['/dev/ttyUSB250', 'PORT_NOT_FOUND', /no such port/],
    [join(file, 'below'), 'PORT_IO', /ENOTDIR/],
  ];
  const before = openDescriptors();
  for (const [devicePath, code, message] of rows)
    await assert.rejects(openTty({ devicePath, driver: '', isPty: false }, eightNone), { code, message }, devicePath);
  assert.equal(openDescriptors(), before);
});

/** Drops root's rights but that to read: the checkout may lie in a home that others cannot enter. */
const NOBODY = ['--reuid=65534', '--regid=65534', '--clear-groups'];
const MAY_READ = ['--inh-caps=+dac_read_search', '--ambient-caps=+dac_read_search'];

/** Opens the port in a child that is not root, and answers what `then` prints. */
async function asNobody(pty: Pty, then: string): Promise<string> {
  const script = `
    const { openTty } = await import(process.argv[1]);
    const port = { devicePath: process.argv[2], driver: '', isPty: true };
    ${then}
  `;
  const url = new URL('./tty.ts', import.meta.url).href;
  const args = ['--input-type=module', '-e', script, url, pty.slavePath];
  const command = [...NOBODY, ...MAY_READ, process.execPath, ...args];
  const child = spawn('setpriv', command, { stdio: ['ignore', 'pipe', 'inherit'] });
  return Buffer.concat(await child.stdout.toArray()).toString();
}

test('a port without permission says which group helps', async (t) => {
  if (process.getuid?.() !== 0) return t.skip('needs root, to become another user');
  const pty = ptyOf(t);
  const then = `await openTty(port, ${JSON.stringify(eightNone)}).catch((error) => console.log(error.code, error.hint));`;
  assert.match(await asNobody(pty, then), /^PORT_PERMISSION .*dialout/);
});

test('killed without the rights of root, a PTY can be opened again', async (t) => {
  if (process.getuid?.() !== 0) return t.skip('needs root, to become another user');
  const pty = ptyOf(t);
  chmodSync(pty.slavePath, 0o666);
  const then = `await openTty(port, ${JSON.stringify(eightNone)}); console.log('open'); process.kill(process.pid, 'SIGKILL');`;
  for (let round = 0; round < 2; round++) assert.equal(await asNobody(pty, then), 'open\n');
});
