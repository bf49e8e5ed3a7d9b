/** Reads the serial ports of /sys/class/tty. Works without udev; a bad entry is left out and spoils no other. */
import { readdir, readFile, readlink, realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import type { PortFacts, UsbFacts } from './hardware-id.ts';

/** The longest attribute read: USB strings have at most 126 characters, `compatible` a few names. */
const ATTRIBUTE_CHARACTERS = 512;
/** sysfs paths of USB hubs behind hubs have about 20 levels. */
const MAX_LEVELS = 40;

export async function sysfsPorts(sysRoot: string): Promise<readonly PortFacts[]> {
  const classes = join(sysRoot, 'class/tty');
  const names = await readdir(classes).catch(() => []);
  const found = await Promise.all(names.map((name) => portFacts(sysRoot, join(classes, name)).catch(() => undefined)));
  return found.filter((facts) => facts !== undefined);
}

/** undefined: no hardware behind it (a console, a virtual terminal, an 8250 placeholder). */
async function portFacts(sysRoot: string, entry: string): Promise<PortFacts | undefined> {
  const device = await realpath(join(entry, 'device')).catch(() => undefined);
  if (device === undefined) return undefined;
  // PORT_UNKNOWN of the serial core: a ttyS node with no UART behind it.
  if ((await attribute(entry, 'type')) === '0') return undefined;
  return climb(basename(entry), device, await realpath(sysRoot));
}

async function climb(name: string, device: string, top: string): Promise<PortFacts> {
  const facts = { name, pnpId: '', bus: '', busName: '', pciId: '', treeName: '', driver: '' };
  const usb = { interfaceName: '', interfaceNumber: '', interfaceLocation: '', portNumber: '' };
  let at = device;
  for (let level = 0; level < MAX_LEVELS && at.startsWith(`${top}/`); level++, at = dirname(at)) {
    const bus = await linkName(at, 'subsystem');
    // Since Linux 6.5 the serial core puts two devices of its own ("port", "ctrl") in between.
    if (bus === 'serial-base') continue;
    await readDevice(at, bus, facts);
    usb.portNumber ||= await attribute(at, 'port_number');
    if (usb.interfaceNumber === '') await readInterface(at, usb);
    const vendorId = await attribute(at, 'idVendor');
    if (vendorId !== '') return { ...facts, usb: await usbFacts(at, vendorId, usb) };
  }
  return { ...facts, usb: undefined };
}

type Writable<T> = { -readonly [K in keyof T]: T[K] };
type DeviceFacts = Omit<PortFacts, 'name' | 'usb'>;

/** The lowest device that has something to say wins. */
async function readDevice(at: string, bus: string, into: Writable<DeviceFacts>): Promise<void> {
  into.driver ||= await linkName(at, 'driver');
  into.treeName ||= await treeName(at);
  if (bus === 'pnp') into.pnpId ||= (await attribute(at, 'id')).split('\n')[0] ?? '';
  if (into.busName !== '' || bus === '' || bus === 'usb-serial') return;
  into.bus = bus;
  into.busName = basename(at);
  if (bus === 'pci') into.pciId = await pciId(at);
}

type InterfaceFacts = Pick<UsbFacts, 'interfaceName' | 'interfaceNumber' | 'interfaceLocation' | 'portNumber'>;

async function readInterface(at: string, into: Writable<InterfaceFacts>): Promise<void> {
  const number = await attribute(at, 'bInterfaceNumber');
  if (number === '') return;
  into.interfaceNumber = number;
  into.interfaceLocation = basename(at);
  into.interfaceName = await attribute(at, 'interface');
}

async function usbFacts(at: string, vendorId: string, usb: InterfaceFacts): Promise<UsbFacts> {
  return {
    ...usb,
    vendorId,
    productId: await attribute(at, 'idProduct'),
    serial: await attribute(at, 'serial'),
    manufacturer: await attribute(at, 'manufacturer'),
    product: await attribute(at, 'product'),
    interfaceCount: Number.parseInt((await attribute(at, 'bNumInterfaces')) || '1', 10) || 1,
    deviceLocation: basename(at),
  };
}

async function pciId(at: string): Promise<string> {
  const [vendor, device] = [await attribute(at, 'vendor'), await attribute(at, 'device')];
  return vendor === '' ? '' : `${vendor.replace(/^0x/, '')}:${device.replace(/^0x/, '')}`;
}

async function treeName(at: string): Promise<string> {
  const node = join(at, 'of_node');
  return (await attribute(node, 'label')) || (await attribute(node, 'compatible'));
}

async function linkName(at: string, link: string): Promise<string> {
  return basename(await readlink(join(at, link)).catch(() => ''));
}

/** A sysfs attribute as clean text: up to a NUL (device tree), control characters out, '' when it cannot be read. */
async function attribute(at: string, name: string): Promise<string> {
  const text = await readFile(join(at, name), 'utf8').catch(() => '');
  const first = text.slice(0, ATTRIBUTE_CHARACTERS).split('\0')[0] ?? '';
  return name === 'id' ? first.trim() : clean(first);
}

function clean(text: string): string {
  return text.replace(/\p{Cc}+/gu, ' ').trim();
}
