/**
 * The serial ports that the kernel knows, from /sys/class/tty, and what its attributes, device numbers and driver table say about
 * them. Works without udev; a bad entry is left out and spoils no other.
 */
import { existsSync } from 'node:fs';
import { readdir, readFile, readlink, realpath } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

/** Attributes gathered on the way up from the tty to the bus; '' or undefined: not there. */
export type PortFacts = Awaited<ReturnType<typeof climb>>;

export function hardwareIdOf(facts: PortFacts): string {
  const { usb } = facts;
  if (usb !== undefined) {
    const id = `${usb.vendorId}:${usb.productId}`.toUpperCase();
    const location = usb.interfaceCount > 1 ? usb.interfaceLocation : usb.deviceLocation;
    return `USB VID:PID=${id}${usb.serial === '' ? '' : ` SER=${usb.serial}`}${location === '' ? '' : ` LOCATION=${location}`}`;
  }
  if (facts.pnpId !== '') return facts.pnpId;
  if (facts.pciId !== '') return `PCI VID:PID=${facts.pciId.toUpperCase()} LOCATION=${facts.busName}`;
  if (facts.busName === '') return '';
  // The Pi's PL011 is on the bus "amba", its mini-UART on "platform": to a technician both are the board's own.
  return facts.bus === 'amba' || facts.bus === 'platform'
    ? `platform:${facts.busName}`
    : `${facts.bus}:${facts.busName}`;
}

export function descriptionOf(facts: PortFacts): string {
  const { usb } = facts;
  if (usb === undefined) return facts.treeName;
  const product = usb.product === '' ? usb.manufacturer : usb.product;
  if (usb.interfaceName === '' || usb.interfaceName === product) return product;
  return product === '' ? usb.interfaceName : `${product} - ${usb.interfaceName}`;
}

/**
 * From the USB identity itself and not from the by-id link, although that says the same: the link comes later than the
 * port (udev makes it) or never, and a port that is back must be known at once.
 */
export function stableIdOf(facts: PortFacts, portName: string): string {
  const { usb } = facts;
  if (usb === undefined) return portName;
  const kind = `usb:${usb.vendorId}:${usb.productId}`.toLowerCase();
  const port = `${usb.interfaceNumber || '00'}${usb.portNumber === '' ? '' : `.${usb.portNumber}`}`;
  return usb.serial === '' ? `${kind}@${usb.deviceLocation}:${port}` : `${kind}:${usb.serial}:${port}`;
}

interface DeviceNumber {
  readonly major: number;
  readonly minor: number;
}

/** Takes Stats.rdev apart: 12 bits of major and 20 of minor, interleaved (makedev of glibc and the kernel). */
export function deviceNumber(rdev: number): DeviceNumber {
  return {
    major: Math.floor(rdev / 0x100) & 0xfff,
    minor: (rdev & 0xff) | (Math.floor(rdev / 0x1000) & 0xfff00),
  };
}

const PTY_SLAVE_MAJORS = { first: 136, last: 143 } as const;
const CONSOLE_MAJOR = 4;
/** Of major 4: minors below are virtual terminals, from here on ttyS. */
const FIRST_UART_MINOR = 64;
/** /dev/tty, /dev/console, /dev/ptmx. */
const ALTERNATE_TTY_MAJOR = 5;

export function isPtySlave({ major }: DeviceNumber): boolean {
  return major >= PTY_SLAVE_MAJORS.first && major <= PTY_SLAVE_MAJORS.last;
}

/** A tty that is no port: a virtual terminal, the console, or the door to a PTY. */
export function isTerminalOnly({ major, minor }: DeviceNumber): boolean {
  return major === ALTERNATE_TTY_MAJOR || (major === CONSOLE_MAJOR && minor < FIRST_UART_MINOR);
}

/** Lines of: name, device prefix, major, minor or range of minors, kind. '' when no line covers the number. */
export function driverOf(table: string, major: number, minor: number): string {
  for (const line of table.split('\n')) {
    const found = /^(\S+)\s+\S+\s+(\d+)\s+(\d+)(?:-(\d+))?(?:\s|$)/.exec(line);
    if (found === null || Number(found[2]) !== major) continue;
    const first = Number(found[3]);
    const last = found[4] === undefined ? first : Number(found[4]);
    if (minor >= first && minor <= last) return found[1] ?? '';
  }
  return '';
}

/** The longest attribute read: USB strings have at most 126 characters, `compatible` a few names. */
const ATTRIBUTE_CHARACTERS = 512;
/** sysfs paths of USB hubs behind hubs have about 20 levels. */
const MAX_LEVELS = 40;

export async function sysfsPorts(sysRoot: string): Promise<readonly PortFacts[]> {
  const classes = join(sysRoot, 'class/tty');
  const names = await readdir(classes).catch(() => []);
  // Consoles and the 64 virtual terminals have no device. On this thread: /sys is in memory, and each of these on a thread of
  // the pool was 170 context switches a second on an idle box, whose hub asks every two seconds.
  const entries = names.map((name) => join(classes, name)).filter((entry) => existsSync(join(entry, 'device')));
  const found = await Promise.all(entries.map((entry) => portFacts(sysRoot, entry).catch(() => undefined)));
  return found.filter((facts) => facts !== undefined);
}

/** undefined: no hardware behind it (an 8250 placeholder). */
async function portFacts(sysRoot: string, entry: string): Promise<PortFacts | undefined> {
  const device = await realpath(join(entry, 'device'));
  // PORT_UNKNOWN of the serial core: a ttyS node with no UART behind it.
  if ((await attribute(entry, 'type')) === '0') return undefined;
  return climb(basename(entry), device, await realpath(sysRoot));
}

async function climb(name: string, device: string, top: string) {
  const facts = {
    /** "ttyUSB0". */
    name,
    driver: '',
    /** From the device tree: `label`, else the first `compatible`. */
    treeName: '',
    /** First line of a PNP device's `id` ("PNP0501"). */
    pnpId: '',
    /** The device below which the tty hangs: its bus ("platform", "amba", "pci") and its name there ("fe201000.serial"). */
    bus: '',
    busName: '',
    /** Of a PCI device, as "8086:8C3D". */
    pciId: '',
  };
  /** Port of the adapter where one interface has several. */
  let portNumber = '';
  let lowest: InterfaceFacts | undefined;
  let at = device;
  for (let level = 0; level < MAX_LEVELS && at.startsWith(`${top}/`); level++, at = dirname(at)) {
    const bus = await linkName(at, 'subsystem');
    // Since Linux 6.5 the serial core puts two devices of its own ("port", "ctrl") in between.
    if (bus === 'serial-base') continue;
    await readDevice(at, bus, facts);
    portNumber ||= await attribute(at, 'port_number');
    lowest ??= await interfaceFacts(at);
    if ((await attribute(at, 'idVendor')) !== '') {
      return { ...facts, usb: { ...(lowest ?? noInterface), portNumber, ...(await usbFacts(at)) } };
    }
  }
  return { ...facts, usb: undefined };
}

/** The lowest device that has something to say wins. */
async function readDevice(at: string, bus: string, into: Omit<PortFacts, 'name' | 'usb'>): Promise<void> {
  into.driver ||= await linkName(at, 'driver');
  into.treeName ||= await treeName(at);
  if (bus === 'pnp') into.pnpId ||= (await attribute(at, 'id')).split('\n')[0] ?? '';
  if (into.busName !== '' || bus === '' || bus === 'usb-serial') return;
  into.bus = bus;
  into.busName = basename(at);
  if (bus === 'pci') into.pciId = await pciId(at);
}

/** bInterfaceNumber: two hex digits; location: "1-1.2:1.0"; name: from the device itself. */
const noInterface = { interfaceNumber: '', interfaceLocation: '', interfaceName: '' };
type InterfaceFacts = typeof noInterface;

async function interfaceFacts(at: string): Promise<InterfaceFacts | undefined> {
  const interfaceNumber = await attribute(at, 'bInterfaceNumber');
  if (interfaceNumber === '') return undefined;
  return { interfaceNumber, interfaceLocation: basename(at), interfaceName: await attribute(at, 'interface') };
}

async function usbFacts(at: string) {
  return {
    vendorId: await attribute(at, 'idVendor'),
    productId: await attribute(at, 'idProduct'),
    serial: await attribute(at, 'serial'),
    manufacturer: await attribute(at, 'manufacturer'),
    product: await attribute(at, 'product'),
    interfaceCount: Number.parseInt((await attribute(at, 'bNumInterfaces')) || '1', 10) || 1,
    /** "1-1.2". */
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
