import assert from 'node:assert/strict';
import { chmod, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { until } from '../../shared/base/wait.fixture.ts';
import { Inventory, type Port } from './inventory.ts';
import { ptyOf } from './linux/pty-rig.fixture.ts';
import { FixtureTree, ftdi } from './sysfs-tree.fixture.ts';

function setup(t: TestContext, extraPorts: readonly string[] = []) {
  const tree = new FixtureTree(t);
  const inventory = new Inventory({ ...tree.roots, procRoot: join(tree.root, 'proc'), extraPorts });
  return { tree, inventory };
}

async function only(inventory: Inventory): Promise<Port> {
  const ports = await inventory.list();
  assert.equal(ports.length, 1, JSON.stringify(ports));
  const [port] = ports;
  assert.ok(port);
  return port;
}

test('PL011 of a Pi 4: platform id, name from the device tree, /dev/serial0', async (t) => {
  const { tree, inventory } = setup(t);
  const path = 'platform/soc/fe201000.serial';
  await tree.device(
    path,
    { 'of_node/compatible': 'arm,pl011\0arm,primecell\0' },
    { bus: 'amba', driver: 'uart-pl011' },
  );
  await tree.tty('ttyAMA0', await tree.serialCore(path), { type: '32\n' });
  await tree.link('dev/serial0', 'dev/ttyAMA0');
  const node = join(tree.devRoot, 'ttyAMA0');
  assert.deepEqual(await only(inventory), {
    portName: node,
    devicePath: node,
    description: 'arm,pl011',
    hardwareId: 'platform:fe201000.serial',
    driver: 'uart-pl011',
    isPty: false,
    links: [join(tree.devRoot, 'serial0')],
    stableId: node,
  });
  assert.equal((await inventory.find(join(tree.devRoot, 'serial0')))?.portName, node);
});

test('FTDI adapter: pyserial id, product, stable identity, links by id and by path', async (t) => {
  const { tree, inventory } = setup(t);
  await tree.usbSerial('ttyUSB0', '1-1.2', ftdi, 'ftdi_sio');
  const links = ['by-id/usb-FTDI_FT232R_USB_UART_A50285BI-if00-port0', 'by-path/platform-usb-0:1.2:1.0-port0'];
  for (const link of links) await tree.link(`dev/serial/${link}`, 'dev/ttyUSB0');
  const port = await only(inventory);
  assert.equal(port.hardwareId, 'USB VID:PID=0403:6001 SER=A50285BI LOCATION=1-1.2');
  assert.equal(port.description, 'FT232R USB UART');
  assert.equal(port.driver, 'ftdi_sio');
  assert.deepEqual(
    port.links,
    links.map((link) => join(tree.devRoot, 'serial', link)),
  );
  for (const name of [port.portName, ...port.links]) assert.deepEqual(await inventory.find(name), port);
});

test('an adapter that returns is the same one, under another name, in another socket, with and without udev', async (t) => {
  const { tree, inventory } = setup(t);
  await tree.usbSerial('ttyUSB0', '1-1.2', ftdi, 'ftdi_sio');
  await tree.link('dev/serial/by-id/usb-FTDI', 'dev/ttyUSB0');
  const known = await only(inventory);
  await rm(join(tree.sysRoot, 'class/tty/ttyUSB0'));
  assert.equal(await inventory.findAgain(known), undefined);
  await tree.usbSerial('ttyUSB3', '1-1.4', ftdi, 'ftdi_sio');
  assert.equal((await inventory.findAgain(known))?.portName, join(tree.devRoot, 'ttyUSB3'));
});

test('without a serial number the socket decides, and another kind of adapter in it is another port', async (t) => {
  const { tree, inventory } = setup(t);
  const ch340 = { idVendor: '1a86\n', idProduct: '7523\n', product: 'USB Serial\n' };
  await tree.usbSerial('ttyUSB0', '1-1', ch340, 'ch341-uart');
  const known = await only(inventory);
  assert.equal(known.hardwareId, 'USB VID:PID=1A86:7523 LOCATION=1-1');
  await rm(join(tree.sysRoot, 'class/tty/ttyUSB0'));
  await tree.usbSerial('ttyUSB1', '1-2', ch340, 'ch341-uart');
  assert.equal(await inventory.findAgain(known), undefined);
  await rm(join(tree.sysRoot, 'devices/platform/usb1/1-1'), { recursive: true });
  await tree.usbSerial('ttyUSB2', '1-1', ftdi, 'ftdi_sio');
  assert.equal(await inventory.findAgain(known), undefined);
});

test('if two adapters have one serial number, the one in the same socket is used', async (t) => {
  const { tree, inventory } = setup(t);
  const clone = { ...ftdi, serial: '0001\n' };
  await tree.usbSerial('ttyUSB0', '1-1', clone, 'ftdi_sio');
  await tree.usbSerial('ttyUSB1', '1-2', clone, 'ftdi_sio');
  for (const name of ['ttyUSB0', 'ttyUSB1']) {
    const known = await inventory.find(join(tree.devRoot, name));
    assert.ok(known);
    assert.deepEqual(await inventory.findAgain(known), known);
  }
});

test('CDC-ACM with two interfaces: two ports with different names', async (t) => {
  const { tree, inventory } = setup(t);
  const device = 'pci0000:00/0000:00:14.0/usb1/1-3';
  const attributes = {
    idVendor: '2e8a\n',
    idProduct: '000a\n',
    serial: 'E660\n',
    product: 'Pico\n',
    bNumInterfaces: ' 4\n',
  };
  await tree.device(device, attributes, { bus: 'usb', driver: 'usb' });
  for (const [index, name] of ['Console', 'Data'].entries()) {
    const at = `${device}/1-3:1.${index * 2}`;
    await tree.device(
      at,
      { bInterfaceNumber: `0${index * 2}\n`, interface: `${name}\n` },
      { bus: 'usb', driver: 'cdc_acm' },
    );
    await tree.tty(`ttyACM${index}`, at);
  }
  const [first, second] = await inventory.list();
  assert.ok(first && second);
  assert.deepEqual([first.description, second.description], ['Pico - Console', 'Pico - Data']);
  assert.equal(first.hardwareId, 'USB VID:PID=2E8A:000A SER=E660 LOCATION=1-3:1.0');
  assert.equal(second.hardwareId, 'USB VID:PID=2E8A:000A SER=E660 LOCATION=1-3:1.2');
  assert.notEqual(first.stableId, second.stableId);
});

test('8250 by PNP, below the serial core of new kernels and of old ones', async (t) => {
  for (const isNew of [false, true]) {
    const { tree, inventory } = setup(t);
    const path = 'pnp0/00:04';
    await tree.device(path, { id: 'PNP0501\nPNP0500\n' }, { bus: 'pnp', driver: 'serial' });
    await tree.tty('ttyS0', isNew ? await tree.serialCore(path) : path, { type: '4\n' });
    const port = await only(inventory);
    assert.deepEqual([port.hardwareId, port.driver], ['PNP0501', 'serial']);
  }
});

test('a card in a PCI slot: its id and its place', async (t) => {
  const { tree, inventory } = setup(t);
  const card = 'pci0000:00/0000:00:16.3';
  await tree.device(card, { vendor: '0x8086\n', device: '0x8c3d\n' }, { bus: 'pci', driver: 'serial' });
  await tree.tty('ttyS4', await tree.serialCore(card), { type: '4\n' });
  assert.equal((await only(inventory)).hardwareId, 'PCI VID:PID=8086:8C3D LOCATION=0000:00:16.3');
});

test('placeholders, consoles and ports without a node are not listed', async (t) => {
  const { tree, inventory } = setup(t);
  await tree.device('platform/serial8250', {}, { bus: 'platform', driver: 'serial8250' });
  for (let i = 0; i < 4; i++) await tree.tty(`ttyS${i}`, 'platform/serial8250', { type: '0\n' });
  for (const name of ['console', 'ptmx', 'tty', 'tty0', 'tty63']) {
    await tree.file(`sys/devices/virtual/tty/${name}/dev`, '4:1\n');
    await tree.link(`sys/class/tty/${name}`, `sys/devices/virtual/tty/${name}`);
    await tree.file(`dev/${name}`);
  }
  await tree.usbSerial('ttyUSB9', '1-9', ftdi, 'ftdi_sio');
  await rm(join(tree.devRoot, 'ttyUSB9'));
  assert.deepEqual(await inventory.list(), []);
});

test('garbage spoils nothing but itself', async (t) => {
  const { tree, inventory } = setup(t, ['relative/*', '/dev/nothing*', '[', '/\0', '']);
  await tree.usbSerial('ttyUSB0', '1-1', { ...ftdi, product: 'bad\n\u001b[31mname\u0007\n' }, 'ftdi_sio');
  await tree.link('sys/class/tty/ttyDANGLING', 'sys/devices/none');
  await tree.link('sys/class/tty/ttyLOOP', 'sys/class/tty/ttyLOOP');
  await tree.file('sys/class/tty/ttyFILE', 'a file');
  await mkdir(join(tree.sysRoot, 'class/tty/tty\nNEWLINE'));
  await tree.link('dev/serial/by-id/dangling', 'dev/none');
  await tree.file('dev/serial/by-path', 'not a directory');
  await tree.file('sys/devices/platform/usb1/1-2/idVendor/directory');
  await tree.usbSerial('ttyUSB1', '1-2', {}, 'ftdi_sio');
  const ports = await inventory.list();
  assert.deepEqual(
    ports.map((port) => port.description),
    ['bad [31mname', ''],
  );
});

test('an empty machine has no ports', async () => {
  const nowhere = { sysRoot: '/nonexistent', devRoot: '/nonexistent', procRoot: '/nonexistent', extraPorts: [] };
  assert.deepEqual(await new Inventory(nowhere).list(), []);
});

test('names are sorted as a person would', async (t) => {
  const { tree, inventory } = setup(t);
  for (const i of [10, 2, 1]) await tree.usbSerial(`ttyUSB${i}`, `1-${i}`, ftdi, 'ftdi_sio');
  const names = (await inventory.list()).map((port) => port.portName.slice(-2));
  assert.deepEqual(names, ['B1', 'B2', '10']);
});

test('extra ports: a PTY by its path, by a glob and by a link; never a file, a directory, a disk or a console', async (t) => {
  const pty = ptyOf(t);
  const tree = new FixtureTree(t);
  const link = join(tree.root, 'my port');
  await symlink(pty.slavePath, link);
  await symlink('/etc/shadow', join(tree.root, 'my shadow'));
  await writeFile(join(tree.root, 'my file'), '');
  await mkdir(join(tree.root, 'my directory'));
  const extraPorts = [
    pty.slavePath,
    '/dev/pts/*',
    join(tree.root, 'my *'),
    '/etc/shadow',
    '/tmp',
    '/dev/*',
    '/dev/vda',
  ];
  const inventory = new Inventory({ ...tree.roots, extraPorts, descriptions: { [link]: 'Simulated line' } });
  const ports = await inventory.list();
  assert.ok(
    ports.every((port) => /^\/dev\/pts\/\d+$/.test(port.devicePath) || /^\/dev\/ttyS\d+$/.test(port.devicePath)),
  );
  assert.equal(ports.filter((port) => port.portName === pty.slavePath).length, 1);
  assert.deepEqual(await inventory.find(link), {
    portName: link,
    devicePath: pty.slavePath,
    description: 'Simulated line',
    hardwareId: '',
    driver: 'pty_slave',
    isPty: true,
    links: [],
    stableId: link,
  });
  for (const name of ['/etc/shadow', '/dev/null', '/dev/vda', '/tmp', '', '\0', join(tree.root, 'my file')])
    assert.equal(await inventory.find(name), undefined);
});

test('an extra port is found again where its link leads now', async (t) => {
  const [first, second] = [ptyOf(t), ptyOf(t)];
  const { tree } = setup(t);
  const link = join(tree.root, 'line');
  const inventory = new Inventory({ ...tree.roots, extraPorts: [link] });
  await symlink(first.slavePath, link);
  const known = await inventory.find(link);
  assert.equal(known?.devicePath, first.slavePath);
  await symlink(second.slavePath, `${link}.new`);
  await rename(`${link}.new`, link);
  assert.equal((await inventory.findAgain(known))?.devicePath, second.slavePath);
});

test('watch: nodes, links, permissions, directories that come, go and come again, links that move', async (t) => {
  const tree = new FixtureTree(t);
  const deep = join(tree.root, 'run/sim');
  const inventory = new Inventory({ ...tree.roots, extraPorts: [join(deep, 'line*')] });
  let calls = 0;
  const watch = inventory.watch(() => void (calls += 1));
  t.after(() => watch.close());
  const notices = async (what: string, change: () => Promise<unknown>): Promise<void> => {
    // Calls for the step before may still be in flight: only one that comes after the change counts.
    await new Promise((resolve) => setTimeout(resolve, 20));
    const before = calls;
    await change();
    await until(what, () => calls > before);
  };
  const node = join(tree.devRoot, 'ttyUSB0');
  await notices('a node', () => writeFile(node, ''));
  await notices('its permissions', () => chmod(node, 0o640));
  await notices('the directory of links', () => mkdir(join(tree.devRoot, 'serial/by-id'), { recursive: true }));
  await notices('a link', () => symlink('../../ttyUSB0', join(tree.devRoot, 'serial/by-id/usb-x')));
  await notices('the node gone', () => rm(node));
  await notices('the links gone', () => rm(join(tree.devRoot, 'serial'), { recursive: true }));
  await notices('the directory again', () => mkdir(join(tree.devRoot, 'serial/by-id'), { recursive: true }));
  await notices('a link again', () => symlink('../../ttyUSB0', join(tree.devRoot, 'serial/by-id/usb-x')));
  await notices('an extra directory', () => mkdir(deep, { recursive: true }));
  await notices('an extra port', () => symlink('/dev/pts/0', join(deep, 'line0')));
  await symlink('/dev/pts/1', join(tree.root, 'fresh'));
  await notices('an extra port that moves', () => rename(join(tree.root, 'fresh'), join(deep, 'line0')));
});

test('watch says nothing after close', async (t) => {
  const { tree, inventory } = setup(t);
  let calls = 0;
  inventory.watch(() => void (calls += 1)).close();
  const second = inventory.watch(() => {});
  await writeFile(join(tree.devRoot, 'ttyUSB0'), '');
  await new Promise((resolve) => setTimeout(resolve, 20));
  second.close();
  assert.equal(calls, 0);
});
