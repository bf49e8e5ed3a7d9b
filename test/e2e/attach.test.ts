/** `lineside attach` with a program that somebody else wrote (pyserial), and a box that goes away. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { constants, existsSync, openSync, readlinkSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { settingsOf } from '../../src/line/port/linux/termios.ts';
import { getTermios } from '../../src/line/port/linux/tty-ioctl.ts';
import { openPty } from '../../src/line/port/simulated/simulated-line.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { environment, startDaemon, startProcess, temporaryDirectory } from './daemon.ts';
import { type Box, openPort, startBox, startEchoBox, wasSent } from './faults.ts';
import { PYTHON, startSeeing } from './python.ts';
import { runCli, startCli } from './run-cli.ts';

async function attach({ daemon }: Box, link: string, ...more: readonly string[]) {
  const running = startCli(['attach', '--config', daemon.configFile, '--link', link, ...more]);
  await until('it is attached', () => running.stdout().includes(link) || assert.equal(running.stderr(), ''));
  return running;
}

test('a program has every byte and sets the speed; settings it cannot set come from the command; it is hung up on when the box is gone', async () => {
  const box = await startEchoBox();
  const link = join(temporaryDirectory(), 'ttyBOX');
  const attached = await attach(box, link, '9600,7E1');
  const program = startSeeing('attach_client.py', link);
  assert.deepEqual(await program.seen(0), { echo: true, after: 'after the change' });
  assert.equal(settingsOf(getTermios(box.pty.masterFd), false).baudRate, 57_600);
  const { holder, effective } = await box.daemon.client.line.getStatus({});
  assert.equal(holder?.name, 'local');
  assert.deepEqual([effective?.baudRate, effective?.dataBits, effective?.parity], [57_600, 7, 1]);
  const other = await runCli(['attach', '--config', box.daemon.configFile]);
  assert.equal(other.status, 1);
  assert.match(other.stderr, /cannot attach the line: the line is held by local since \d\d:\d\d UTC/);
  await box.daemon.kill();
  assert.equal(await until('the command has ended', () => attached.process.exitCode ?? undefined), 3);
  program.child.stdin?.write('\n');
  assert.equal((await program.seen(1))['end'], 'hang-up');
  assert.equal(existsSync(link), false);
});

test('--wait: the program waits for a box that starts again; what it writes then is sent once', async () => {
  const box = await startEchoBox();
  const link = join(temporaryDirectory(), 'ttyBOX');
  const attached = await attach(box, link, '--wait');
  const program = startSeeing('attach_client.py', link);
  await program.seen(0);
  await box.daemon.stop();
  await until('it says so', () => attached.stderr().includes('programs wait'));
  program.child.stdin?.write('\n');
  const again = await startDaemon({ dir: box.daemon.dir });
  await openPort(again.client, box.pty.portName);
  assert.equal((await program.seen(1))['end'], 'once');
  assert.match(attached.stderr(), /connected again/);
  await until('the log has it', async () => (await wasSent({ daemon: again })).endsWith('once'));
  assert.equal((await wasSent({ daemon: again })).split('once').length, 2);
  assert.equal((await again.client.line.getStatus({})).effective?.baudRate, 57_600);
  assert.equal(await attached.end('SIGINT'), 0);
  await until('the hold has ended', async () => (await again.client.line.getStatus({})).holder === null);
  await again.stop();
});

test('a link replaces nothing but one to a terminal that is gone', async () => {
  const box = await startEchoBox();
  const dir = temporaryDirectory();
  const [file, dead] = [join(dir, 'file'), join(dir, 'dead')];
  writeFileSync(file, 'precious');
  symlinkSync('/dev/pts/999999', dead);
  const refused = await runCli(['attach', '--config', box.daemon.configFile, '--link', file]);
  assert.match(refused.stderr, /file is there already/);
  const attached = await attach(box, dead);
  assert.notEqual(readlinkSync(dead), '/dev/pts/999999');
  assert.equal(await attached.end('SIGINT'), 0);
  assert.equal(existsSync(dead), false);
  await box.daemon.stop();
});

test('stty is followed; each change applies to what is written after it', async () => {
  const box = await startBox({}, undefined, false);
  const seen: string[] = [];
  box.pty.onData((bytes) =>
    seen.push(`${Buffer.from(bytes).toString()} at ${settingsOf(getTermios(box.pty.masterFd), false).baudRate}`),
  );
  const link = join(temporaryDirectory(), 'ttyBOX');
  const attached = await attach(box, link);
  for (const rate of ['300', '19200', '9600']) {
    assert.equal(
      spawnSync('sh', ['-c', `stty ${rate} && printf x >&0`], { stdio: [openTty(link), 'pipe', 'pipe'] }).status,
      0,
    );
    await until('it comes', () => seen.at(-1) === `x at ${rate}`);
  }
  assert.equal(seen.length, 3);
  assert.equal(await attached.end('SIGINT'), 0);
  await box.daemon.stop();
});

test('a killed command leaves a link that the next one replaces, also when another program has the number of its terminal; not that of a running one', async () => {
  const box = await startEchoBox();
  const link = join(temporaryDirectory(), 'ttyBOX');
  const killed = await attach(box, link);
  const held = readlinkSync(link);
  assert.match(held, /^\/dev\/pts\//);
  await box.daemon.client.line.releaseHold({});
  const beside = await runCli(['attach', '--config', box.daemon.configFile, '--link', link]);
  assert.match(beside.stderr, /ttyBOX is there already/);
  await killed.end('SIGKILL');
  const others = [openPty()];
  while (!existsSync(held)) others.push(openPty());
  await box.daemon.client.line.releaseHold({});
  const again = await attach(box, link);
  assert.notEqual(readlinkSync(link), held);
  assert.equal(await again.end('SIGINT'), 0);
  for (const other of others) other.close();
  await box.daemon.stop();
});

function openTty(link: string): number {
  return openSync(link, constants.O_RDWR | constants.O_NOCTTY);
}

test('while no program has the port open, bytes are dropped, and the next one gets what comes then', async () => {
  const box = await startBox({}, undefined, false);
  const link = join(temporaryDirectory(), 'ttyBOX');
  const attached = await attach(box, link);
  // More than all buffers on the way hold.
  for (let n = 0; n < 300; n++) {
    await box.pty.write(Buffer.alloc(4_000, n), AbortSignal.timeout(30_000));
    await sleep(5);
  }
  const program =
    "import sys,serial;p=serial.Serial(sys.argv[1],timeout=20);print('open',flush=True);print(p.read(5).decode(),flush=True)";
  const child = startProcess(PYTHON, ['-c', program, link], environment());
  const lines: string[] = [];
  if (child.stdout !== null) createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  await until('the program has it open', () => lines[0] === 'open');
  // The first of these may still be dropped.
  const read = await until('the program has read', async () => {
    await box.pty.write(Buffer.from('fresh'), AbortSignal.timeout(10_000));
    return lines[1];
  });
  assert.equal(read, 'fresh');
  assert.equal(attached.process.exitCode, null, attached.stderr());
  assert.equal(await attached.end('SIGINT'), 0);
  await box.daemon.stop();
});
