/**
 * The stable links of /dev/serial/by-id on a real terminal: a /sys and a /dev of the test's own, a PTY mounted where the
 * adapter's node would be. In this process, since the daemon looks only into the real /sys and /dev.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, afterEach, before, beforeEach, test } from 'node:test';
import { Inventory } from '../../src/line/port/inventory.ts';
import type { OpenRequest } from '../../src/line/port/line-config.ts';
import { LineMemory } from '../../src/line/port/line-memory.ts';
import { checkSettings } from '../../src/line/port/linux/termios.ts';
import { openTty } from '../../src/line/port/linux/tty.ts';
import { PortOwner } from '../../src/line/port/owner.ts';
import { openPty, type Pty } from '../../src/line/port/simulated/pty.ts';
import { FixtureTree, ftdi } from '../../src/line/port/sysfs-tree.fixture.ts';
import { FakeClock } from '../../src/shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../src/shared/base/logger.ts';
import { until } from '../../src/shared/base/wait.fixture.ts';

const ID = 'usb-FTDI_FT232R_USB_UART_A50285BI-if00-port0';
const mounted = new Set<string>();
const ptys = new Set<Pty>();
let tree: FixtureTree;
let owner: PortOwner | undefined;
let clock: FakeClock;
let attempts = 0;
let mountable = true;

/** The adapter with this serial number gets this node, with a real terminal behind it. */
async function plug(node: string, location: string): Promise<Pty> {
  const pty = openPty();
  ptys.add(pty);
  const path = join(tree.devRoot, node);
  const link = join(tree.devRoot, 'serial/by-id', ID);
  // As the kernel and udev do it: the device in sysfs, its node, then the link.
  if (!existsSync(path)) writeFileSync(path, '');
  const mount = spawnSync('mount', ['--bind', pty.slavePath, path], { encoding: 'utf8' });
  if (mount.status !== 0) mountable = false;
  else mounted.add(path);
  await tree.usbSerial(node, location, ftdi, 'ftdi_sio').catch(() => {});
  mkdirSync(join(tree.devRoot, 'serial/by-id'), { recursive: true });
  symlinkSync(`../../${node}`, link);
  return pty;
}

function unmount(path: string): void {
  spawnSync('umount', ['-l', path]);
  mounted.delete(path);
}

/** All of it goes, as when the cable is pulled out. */
function unplug(node: string, pty: Pty, location: string): void {
  rmSync(join(tree.devRoot, 'serial/by-id', ID));
  unmount(join(tree.devRoot, node));
  rmSync(join(tree.devRoot, node));
  rmSync(join(tree.sysRoot, 'class/tty', node));
  rmSync(join(tree.sysRoot, 'devices/platform/usb1', location), { recursive: true });
  pty.close();
}

before(async () => {
  tree = await FixtureTree.make();
});
beforeEach(async () => {
  clock = new FakeClock();
  attempts = 0;
});
afterEach(async () => {
  await owner?.stop();
  owner = undefined;
});
after(async () => {
  for (const pty of ptys) pty.close();
  for (const path of mounted) unmount(path);
  await tree.remove();
});

function newOwner(): PortOwner {
  owner = new PortOwner({
    inventory: new Inventory({ ...tree.roots, extraPorts: [] }),
    openDevice: (port, settings) => {
      attempts += 1;
      return openTty(port, settings);
    },
    checkSettings,
    log: { record() {}, pressed: false, onRelieved() {} },
    memory: new LineMemory(join(tree.root, 'state.json')),
    clock,
    logger: silentLogger,
    maxPayloadBytes: 65_536,
    rxBufferBytes: 1_048_576,
    rxBufferPackets: 65_536,
    rxGapMs: 0,
    txQueuePackets: 256,
    txQueueBytes: 1_048_576,
    writeTimeoutMs: 10_000,
  });
  return owner;
}

const usual = { baudRate: 115_200, dataBits: 8, parity: 0, stopBits: 0, packetSize: 0 };
const open = (port: PortOwner, portName: string, more: Partial<OpenRequest> = {}): Promise<void> =>
  port.open({ ...usual, portName, ...more });

test('opens by the link, and gets the adapter back at once when it returns as another ttyUSB', async (t) => {
  let pty = await plug('ttyUSB0', '1-1.2');
  if (!mountable) return t.skip('binding a terminal to another name needs the right to mount');
  const byId = join(tree.devRoot, 'serial/by-id', ID);
  const line = newOwner();
  await open(line, byId);
  assert.equal(line.currentConfig()?.portName, byId);
  assert.equal(line.snapshot().devicePath, join(tree.devRoot, 'ttyUSB0'));
  assert.equal(line.snapshot().effective?.driver, 'ftdi_sio');
  assert.equal(attempts, 1);

  const next = openPty();
  ptys.add(next);
  unplug('ttyUSB0', pty, '1-1.2');
  await until('the loss', () => line.snapshot().state !== 'open');
  await until('the wait for its return', () => line.snapshot().state === 'lost');
  pty = await plug('ttyUSB7', '1-1.2');
  // The clock of the service does not advance: no timer has fired, the kernel's notice alone brought it back.
  await until('the return', () => line.snapshot().state === 'open');
  assert.equal(clock.monoMs(), 0);
  assert.equal(line.snapshot().devicePath, join(tree.devRoot, 'ttyUSB7'));
  assert.equal(line.currentConfig()?.portName, byId);
  const { signal } = new AbortController();
  await line.send({ payload: Buffer.from('to the same device'), caller: 'x', signal, deadlineMs: undefined });
  const heard: Buffer[] = [];
  pty.onData((bytes) => heard.push(Buffer.from(bytes)));
  await until('the bytes', () => Buffer.concat(heard).toString() === 'to the same device');
  await line.close();
});

test('settings that the driver takes without a word and does not do are refused by their names', async (t) => {
  if (!mountable) return t.skip('needs the right to mount');
  const node = join(tree.devRoot, 'ttyUSB7');
  const line = newOwner();
  await open(line, node, { baudRate: 9_600 });
  // A PTY keeps neither parity nor data bits: here it stands for a poor driver.
  await assert.rejects(open(line, node, { parity: 1 }), { code: 'SETTING_REFUSED', message: /parity.*even.*none/i });
  await assert.rejects(open(line, node, { dataBits: 7 }), { code: 'SETTING_REFUSED', message: /data.?bits.*7.*8/i });
  assert.equal(line.currentConfig()?.baudRate, 9_600, 'the old configuration stands');
  await line.close();
});
