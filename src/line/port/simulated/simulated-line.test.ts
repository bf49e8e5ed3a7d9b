import assert from 'node:assert/strict';
import { lstat, readlink, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import fc from 'fast-check';
import { systemClock } from '../../../shared/base/clock.ts';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { temporaryDirectory } from '../../../shared/base/temporary.fixture.ts';
import { until } from '../../../shared/base/wait.fixture.ts';
import { Inventory } from '../inventory.ts';
import { eightNone, never, openDescriptors, pattern } from '../linux/pty-rig.fixture.ts';
import { type Device, openTty } from '../linux/tty.ts';
import { ChattyDevice, checksum, DEVICE_ID, startSimulatedLine } from './simulated-line.ts';

async function setup(t: TestContext, clock = new FakeClock()) {
  const runtimeDir = join(temporaryDirectory(t), 'run');
  const line = await startSimulatedLine(runtimeDir, clock);
  t.after(() => line.close());
  const inventory = new Inventory({
    extraPorts: [line.portName],
    descriptions: { [line.portName]: line.description },
  });
  const heard = { text: '' };
  const open = async (): Promise<Device> => {
    const port = await inventory.find(line.portName);
    assert.ok(port);
    const device = await openTty(port, eightNone);
    device.start({
      data: (bytes) => void (heard.text += Buffer.from(bytes).toString('latin1')),
      lost: (cause) => assert.fail(cause),
    });
    return device;
  };
  return { line, inventory, runtimeDir, clock, heard, open };
}

test('reports each second and answers commands', async (t) => {
  const { clock, heard, open } = await setup(t);
  const device = await open();
  clock.advance(1_000);
  await until('a report', () => heard.text.startsWith('$SIM,000001,TEMP,'));
  await device.write(Buffer.from('PING\r\n'), never);
  await until('an answer', () => heard.text.endsWith('PONG\r\n'));
  await device.write(Buffer.from('SET RATE 100\r\n'), never);
  await until('the answer', () => heard.text.endsWith('OK\r\n'));
  clock.advance(100);
  await until('a report at the new rate', () => heard.text.includes('$SIM,000002'));
  await device.close();
});

test('continues over close and open, and has no old reports for a later client', async (t) => {
  const { clock, heard, open } = await setup(t);
  for (let round = 0; round < 3; round++) {
    clock.advance(3_600_000);
    heard.text = '';
    const device = await open();
    await device.write(Buffer.from('PING\r\n'), never);
    await until('an answer', () => heard.text.endsWith('PONG\r\n'));
    assert.equal(heard.text, 'PONG\r\n');
    await device.close();
  }
});

test('takes megabytes of noise without blocking, and answers afterwards', async (t) => {
  const { heard, open } = await setup(t, new FakeClock());
  const device = await open();
  assert.equal((await device.write(pattern(1_000_000), never)).error, undefined);
  await until('an answer', () => {
    void device.write(Buffer.from('\r\nPING\r\n'), never);
    return heard.text.includes('PONG');
  });
  await device.close();
});

test('replaces the link of an earlier run, removes its own, and leaves nothing open', async (t) => {
  const parent = temporaryDirectory(t);
  const link = join(parent, 'sim0');
  await symlink('/dev/pts/999999', link);
  const before = openDescriptors();
  const line = await startSimulatedLine(parent, systemClock);
  assert.match(await readlink(link), /^\/dev\/pts\/\d+$/);
  await line.close();
  await assert.rejects(lstat(link), { code: 'ENOENT' });
  await until('all is closed', () => openDescriptors() === before);
});

test('fails with the reason when the link cannot be placed, and leaves nothing open', async () => {
  const before = openDescriptors();
  await assert.rejects(startSimulatedLine('/dev/null', systemClock), { code: /ENOTDIR|EEXIST/ });
  await until('all is closed', () => openDescriptors() === before);
});

const text = (bytes: Uint8Array): string => Buffer.from(bytes).toString('latin1');
const say = (device: ChattyDevice, line: string): string => text(device.receive(Buffer.from(line, 'latin1'), 0));

test('commands and their answers', () => {
  const rows: readonly (readonly [string, string])[] = [
    ['PING\r\n', 'PONG\r\n'],
    ['ping\n', 'PONG\r\n'],
    ['PING\r', 'PONG\r\n'],
    ['ID?\r\n', `${DEVICE_ID}\r\n`],
    ['SET RATE 500\r\n', 'OK\r\n'],
    ['SET RATE 0\r\n', 'OK\r\n'],
    ['SET RATE 99\r\n', '?\r\n'],
    ['SET RATE 60001\r\n', '?\r\n'],
    ['SET RATE x\r\n', '?\r\n'],
    ['SET RATE -1\r\n', '?\r\n'],
    ['HELLO\r\n', '?\r\n'],
    ['\r\n\r\n', ''],
    ['PING\r\nPING\r\n', 'PONG\r\nPONG\r\n'],
    ['no end', ''],
    ['?\r\n', ''],
    ['$SIM,1*00\r\n', ''],
    [`${'x'.repeat(5_000)}\r\nPING\r\n`, '?\r\nPONG\r\n'],
    ['\0\u00ff\u0080\r\n', '?\r\n'],
  ];
  for (const [line, answer] of rows)
    assert.equal(say(new ChattyDevice(0), line), answer, JSON.stringify(line.slice(0, 20)));
});

test('a command may come in pieces', () => {
  const device = new ChattyDevice(0);
  assert.equal(['P', 'IN', 'G', '\r', '\n'].map((piece) => say(device, piece)).join(''), 'PONG\r\n');
});

test('reports each second with a number, a temperature that changes and a checksum', () => {
  const device = new ChattyDevice(0);
  assert.equal(device.nextMs, 1_000);
  assert.equal(text(device.report(999)), '');
  const lines = [1_000, 2_000, 3_000].map((nowMs) => text(device.report(nowMs)));
  for (const [index, line] of lines.entries()) {
    const parts = /^\$(SIM,00000(\d),TEMP,(\d\d\.\d\d),C)\*([0-9A-F]{2})\r\n$/.exec(line);
    assert.ok(parts, line);
    assert.equal(parts[2], String(index + 1));
    assert.equal(parts[4], checksum(parts[1] ?? ''));
  }
  assert.equal(new Set(lines.map((line) => line.split(',')[3])).size, 3);
});

test('after a long pause there is one report, not a burst', () => {
  const device = new ChattyDevice(0);
  assert.notEqual(text(device.report(1_000_000)), '');
  assert.equal(text(device.report(1_000_000)), '');
  assert.equal(device.nextMs, 1_001_000);
});

test('the rate can be set, and reports turned off', () => {
  const device = new ChattyDevice(0);
  say(device, 'SET RATE 250\r\n');
  assert.equal(device.nextMs, 250);
  say(device, 'SET RATE 0\r\n');
  assert.equal(device.nextMs, undefined);
  assert.equal(text(device.report(1e9)), '');
});

test('any bytes at all: answers stay short, and the device still answers afterwards', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2_000 }), (noise) => {
      const device = new ChattyDevice(0);
      assert.ok(device.receive(noise, 0).length <= noise.length * 3 + DEVICE_ID.length);
      assert.match(say(device, '\r\nPING\r\n'), /PONG\r\n$/);
    }),
  );
});
