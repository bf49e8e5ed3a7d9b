/** The serial ports of this machine, from sysfs and serial.extra_ports. No udevadm: it may be missing, and it is slow. */
import { access, readdir, readFile, readlink, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { deviceNumber } from './device-number.ts';
import { type ExtraPort, extraPorts } from './extra-ports.ts';
import { descriptionOf, hardwareIdOf, type PortFacts, stableIdOf, type UsbFacts } from './hardware-id.ts';
import { PortWatch, patternDirectories } from './port-watch.ts';
import type { Inventory, Port } from './ports.ts';
import { driverOf } from './tty-drivers.ts';

export interface InventoryOptions {
  /** '/sys', '/dev' and '/proc' unless a test has its own. */
  readonly sysRoot?: string;
  readonly devRoot?: string;
  readonly procRoot?: string;
  /** Globs of absolute paths. */
  readonly extraPorts: readonly string[];
  /** Descriptions of ports that have none of their own, by portName (the simulated line). */
  readonly descriptions?: Readonly<Record<string, string>>;
}

export function createInventory(options: InventoryOptions): Inventory {
  return new SysfsInventory(options);
}

class SysfsInventory implements Inventory {
  readonly #sysRoot: string;
  readonly #devRoot: string;
  readonly #procRoot: string;
  readonly #patterns: readonly string[];
  readonly #descriptions: Readonly<Record<string, string>>;

  constructor(options: InventoryOptions) {
    this.#sysRoot = options.sysRoot ?? '/sys';
    this.#devRoot = options.devRoot ?? '/dev';
    this.#procRoot = options.procRoot ?? '/proc';
    this.#patterns = options.extraPorts;
    this.#descriptions = options.descriptions ?? {};
  }

  async list(): Promise<readonly Port[]> {
    const [facts, extras, links] = await Promise.all([
      sysfsPorts(this.#sysRoot),
      extraPorts(this.#patterns, this.#sysRoot),
      portLinks(this.#devRoot),
    ]);
    const drivers = await readFile(join(this.#procRoot, 'tty/drivers'), 'utf8').catch(() => '');
    const byName = new Map<string, Port>();
    for (const one of facts) {
      const port = await this.#portOf(one, links, drivers);
      if (port !== undefined) byName.set(port.portName, port);
    }
    for (const extra of extras) {
      if (byName.has(extra.portName)) continue;
      byName.set(extra.portName, await this.#extraOf(extra, facts, drivers));
    }
    return [...byName.values()].sort((a, b) => compareNames(a.portName, b.portName));
  }

  async find(name: string): Promise<Port | undefined> {
    const ports = await this.list();
    return ports.find((port) => port.portName === name) ?? ports.find((port) => port.links.includes(name));
  }

  async findAgain(known: Port): Promise<Port | undefined> {
    const same = (await this.list()).filter((port) => port.stableId === known.stableId);
    // Cheap adapters share one serial number: the one in the same socket, else the one of the same name.
    return (
      same.find((port) => port.hardwareId === known.hardwareId && port.portName === known.portName) ??
      same.find((port) => port.hardwareId === known.hardwareId) ??
      same.find((port) => port.portName === known.portName) ??
      same[0]
    );
  }

  watch(call: () => void): { close(): void } {
    const directories = (): readonly string[] => [
      ...linkDirectoriesOf(this.#devRoot),
      ...patternDirectories(this.#patterns),
    ];
    return new PortWatch(directories, call);
  }

  /** undefined: sysfs has it but there is no node to open. */
  async #portOf(
    facts: PortFacts,
    links: ReadonlyMap<string, readonly string[]>,
    drivers: string,
  ): Promise<Port | undefined> {
    // The kernel writes '/' in a device's name as '!'.
    const node = join(this.#devRoot, facts.name.replaceAll('!', '/'));
    const there = await access(node).then(
      () => true,
      () => false,
    );
    if (!there) return undefined;
    return {
      portName: node,
      devicePath: node,
      description: this.#descriptions[node] ?? descriptionOf(facts),
      hardwareId: hardwareIdOf(facts),
      driver: facts.driver || (await driverOfNode(node, drivers)),
      isPty: false,
      links: links.get(node) ?? [],
      stableId: stableIdOf(facts, node),
    };
  }

  async #extraOf(extra: ExtraPort, facts: readonly PortFacts[], drivers: string): Promise<Port> {
    const behind = facts.find((one) => one.name === extra.sysfsName);
    return {
      portName: extra.portName,
      devicePath: extra.devicePath,
      description: this.#descriptions[extra.portName] ?? (behind === undefined ? '' : descriptionOf(behind)),
      hardwareId: behind === undefined ? '' : hardwareIdOf(behind),
      driver: behind?.driver || (await driverOfNode(extra.devicePath, drivers)),
      isPty: extra.isPty,
      links: [],
      stableId: extra.portName,
    };
  }
}

async function driverOfNode(node: string, drivers: string): Promise<string> {
  const found = await stat(node).catch(() => undefined);
  if (found === undefined || !found.isCharacterDevice()) return '';
  const { major, minor } = deviceNumber(found.rdev);
  return driverOf(drivers, major, minor);
}

/** By character codes, but ttyUSB2 before ttyUSB10. */
function compareNames(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true }) || (a < b ? -1 : 1);
}

// Stable names of ports: the links that udev (or the Pi's firmware) leaves under /dev, by the node they lead to.

const linkDirectories = ['serial/by-id', 'serial/by-path'];
const singleLinks = ['serial0', 'serial1'];

/** The directories whose changes may mean a new link. */
function linkDirectoriesOf(devRoot: string): readonly string[] {
  return [devRoot, join(devRoot, 'serial'), ...linkDirectories.map((directory) => join(devRoot, directory))];
}

async function portLinks(devRoot: string): Promise<ReadonlyMap<string, readonly string[]>> {
  const links = (await Promise.all(linkDirectories.map((directory) => entries(join(devRoot, directory))))).flat();
  links.push(...singleLinks.map((name) => join(devRoot, name)));
  const byNode = new Map<string, string[]>();
  await Promise.all(
    links.map(async (link) => {
      const node = await realpath(link).catch(() => undefined);
      if (node === undefined || node === link) return;
      byNode.set(node, [...(byNode.get(node) ?? []), link]);
    }),
  );
  for (const list of byNode.values()) list.sort();
  return byNode;
}

async function entries(directory: string): Promise<string[]> {
  return (await readdir(directory).catch(() => [])).map((name) => join(directory, name));
}

// Reads the serial ports of /sys/class/tty. Works without udev; a bad entry is left out and spoils no other.

/** The longest attribute read: USB strings have at most 126 characters, `compatible` a few names. */
const ATTRIBUTE_CHARACTERS = 512;
/** sysfs paths of USB hubs behind hubs have about 20 levels. */
const MAX_LEVELS = 40;

async function sysfsPorts(sysRoot: string): Promise<readonly PortFacts[]> {
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
