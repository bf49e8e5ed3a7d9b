/** The serial ports of this machine, from sysfs and serial.extra_ports. No udevadm: it may be missing, and it is slow. */
import { type FSWatcher, globSync, statSync, watch } from 'node:fs';
import { glob, lstat, readdir, readFile, readlink, realpath, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import {
  descriptionOf,
  deviceNumber,
  driverOf,
  hardwareIdOf,
  isPtySlave,
  isTerminalOnly,
  type PortFacts,
  stableIdOf,
  sysfsPorts,
} from './sysfs.ts';

interface InventoryOptions {
  /** '/sys', '/dev' and '/proc' unless a test has its own. */
  readonly sysRoot?: string;
  readonly devRoot?: string;
  readonly procRoot?: string;
  /** Globs of absolute paths. */
  readonly extraPorts: readonly string[];
  /** Descriptions of ports that have none of their own, by portName (the simulated line). */
  readonly descriptions?: Readonly<Record<string, string>>;
}

/** A serial port that exists now. */
export interface Port {
  /** What clients call it: the device node, or the path that serial.extra_ports matched. */
  readonly portName: string;
  /** The node to open, with links resolved ("/dev/ttyUSB0", "/dev/pts/4"). */
  readonly devicePath: string;
  /** What USB or the device tree says; '' when neither does. */
  readonly description: string;
  /** pyserial's form: "USB VID:PID=0403:6001 SER=A50285BI LOCATION=1-1.2", "PNP0501", "platform:fe201000.serial". */
  readonly hardwareId: string;
  /** Kernel driver; '' when unknown. */
  readonly driver: string;
  readonly isPty: boolean;
  /** Other names that Open accepts for it: /dev/serial/by-id/..., /dev/serial/by-path/..., /dev/serial0. */
  readonly links: readonly string[];
  /**
   * What stays the same when the port is plugged in again and gets another name: the by-id link's name or USB
   * identity (with serial number and interface), else USB location, else the portName.
   */
  readonly stableId: string;
}

/** What is used of it to open it. */
export type PortToOpen = Pick<Port, 'devicePath' | 'driver' | 'isPty'>;

export class Inventory {
  readonly #o: Required<InventoryOptions>;

  constructor(options: InventoryOptions) {
    this.#o = { sysRoot: '/sys', devRoot: '/dev', procRoot: '/proc', descriptions: {}, ...options };
  }

  /** Every real port, those of serial.extra_ports, and the simulated line; sorted by name, no duplicates. */
  async list(): Promise<readonly Port[]> {
    const { sysRoot, devRoot, procRoot } = this.#o;
    const [facts, extras, links, drivers] = await Promise.all([
      sysfsPorts(sysRoot),
      extraPorts(this.#o.extraPorts, sysRoot),
      portLinks(devRoot),
      readFile(join(procRoot, 'tty/drivers'), 'utf8').catch(() => ''),
    ]);
    const byName = new Map<string, Port>();
    for (const one of facts) {
      // The kernel writes '/' in a device's name as '!'.
      const node = join(devRoot, one.name.replaceAll('!', '/'));
      const names = { portName: node, devicePath: node, isPty: false };
      // sysfs may have a port without a node to open.
      if (await isThere(stat(node))) byName.set(node, await this.#port(names, one, drivers, links.get(node)));
    }
    for (const { sysfsName, ...names } of extras) {
      if (byName.has(names.portName)) continue;
      const behind = facts.find((one) => one.name === sysfsName);
      const port = await this.#port(names, behind, drivers);
      byName.set(names.portName, { ...port, stableId: names.portName });
    }
    return [...byName.values()].sort((a, b) => (sortKey(a.portName) < sortKey(b.portName) ? -1 : 1));
  }

  /** The port that `name` means now (a portName or one of its links). */
  async find(name: string): Promise<Port | undefined> {
    const ports = await this.list();
    return ports.find((port) => port.portName === name) ?? ports.find((port) => port.links.includes(name));
  }

  /** The port that is the same hardware as `known`, whatever it is called now. */
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

  /** Calls back soon after any port may have appeared or become accessible (device node or link added or changed). */
  watch(call: () => void): { close(): void } {
    const { devRoot, extraPorts } = this.#o;
    // The directories whose changes may mean a new link.
    const links = [devRoot, ...['serial', ...linkDirectories].map((directory) => join(devRoot, directory))];
    return new PortWatch(() => [...links, ...patternDirectories(extraPorts)], call);
  }

  async #port(
    names: Pick<Port, 'portName' | 'devicePath' | 'isPty'>,
    facts: PortFacts | undefined,
    drivers: string,
    links: readonly string[] = [],
  ): Promise<Port> {
    const { portName, devicePath } = names;
    return {
      ...names,
      description: this.#o.descriptions[portName] ?? (facts === undefined ? '' : descriptionOf(facts)),
      hardwareId: facts === undefined ? '' : hardwareIdOf(facts),
      driver: facts?.driver || (await driverOfNode(devicePath, drivers)),
      links,
      stableId: facts === undefined ? portName : stableIdOf(facts, portName),
    };
  }
}

async function driverOfNode(node: string, drivers: string): Promise<string> {
  const found = await stat(node).catch(() => undefined);
  if (found === undefined || !found.isCharacterDevice()) return '';
  const { major, minor } = deviceNumber(found.rdev);
  return driverOf(drivers, major, minor);
}

/** By character codes, but ttyUSB2 before ttyUSB10. A comparison by locale loads the names of all locales first: 2.8 MB. */
function sortKey(name: string): string {
  return `${name.replace(/\d+/g, (digits) => digits.padStart(10, '0'))} ${name}`;
}

// Stable names of ports: the links that udev (or the Pi's firmware) leaves under /dev, by the node they lead to.

const linkDirectories = ['serial/by-id', 'serial/by-path'];
const singleLinks = ['serial0', 'serial1'];

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

// serial.extra_ports: globs for PTYs, simulators and links of one's own. What a glob matches is listed only when it is a
// tty that can be a port: never a file, a directory, a disk or a console, whatever the pattern says.

async function extraPorts(patterns: readonly string[], sysRoot: string) {
  const paths = new Set((await Promise.all(patterns.map(matches))).flat());
  const ports = await Promise.all([...paths].map((path) => extraPort(path, sysRoot).catch(() => undefined)));
  return ports.filter((port) => port !== undefined);
}

async function matches(pattern: string): Promise<string[]> {
  if (!pattern.startsWith('/')) return [];
  // A path may also have the characters of a pattern in its name.
  const found: string[] = (await isThere(lstat(pattern))) ? [pattern] : [];
  if (!isPattern(pattern)) return found;
  try {
    for await (const path of glob(pattern)) found.push(path);
  } catch {
    // A directory that cannot be read ends the search: what was found before it counts.
  }
  return found;
}

function isThere(found: Promise<unknown>): Promise<boolean> {
  return found.then(
    () => true,
    () => false,
  );
}

/** `sysfsName`: "ttyUSB0"; '' for a PTY. */
async function extraPort(portName: string, sysRoot: string) {
  const devicePath = await realpath(portName);
  const found = await stat(devicePath);
  if (!found.isCharacterDevice()) return undefined;
  const number = deviceNumber(found.rdev);
  if (isPtySlave(number)) return { portName, devicePath, isPty: true, sysfsName: '' };
  if (isTerminalOnly(number)) return undefined;
  const entry = await realpath(join(sysRoot, 'dev/char', `${number.major}:${number.minor}`));
  if (basename(await readlink(join(entry, 'subsystem'))) !== 'tty') return undefined;
  const type = await readFile(join(entry, 'type'), 'utf8').catch(() => '');
  return type.trim() === '0' ? undefined : { portName, devicePath, isPty: false, sysfsName: basename(entry) };
}

// Calls back soon after a port may have appeared. By inotify on the directories, not by the kernel's uevent socket: devtmpfs makes
// the node as part of the same add event, and inotify also reports when udev has set the permissions or made a link, and when a
// simulator has made its PTY, none of which the kernel announces.

/** udev sets owner and mode and makes its links within a few ms of each other: one call for all. */
const SETTLE_MS = 5;
/** A directory that could not be watched (limit of inotify instances reached) is tried again after this long. */
const REWATCH_MS = 5_000;

/** More levels than the deepest directory here (/dev/serial/by-id) has. */
const MAX_PASSES = 5;

class PortWatch {
  readonly #directories: () => readonly string[];
  readonly #call: () => void;
  #watchers: FSWatcher[] = [];
  /** Last mode and owner of nodes that were changed in place. */
  readonly #access = new Map<string, string>();
  readonly #changed = new Set<string>();
  #appeared = false;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(directories: () => readonly string[], call: () => void) {
    this.#directories = directories;
    this.#call = call;
    this.#rewatch();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const watcher of this.#watchers) watcher.close();
  }

  #onEvent(directory: string, event: string, name: string | null): void {
    // Kernels before 6.14 also report each write to a device node: so only access is checked.
    if (event === 'change' && name !== null) this.#changed.add(join(directory, name));
    else this.#appeared = true;
    this.#settle(SETTLE_MS);
  }

  #settle(delayMs: number): void {
    if (!this.#closed) this.#timer ??= setTimeout(() => this.#settled(), delayMs);
  }

  #settled(): void {
    this.#timer = undefined;
    const changed = [...this.#changed].filter((path) => this.#accessChanged(path)).length > 0;
    this.#changed.clear();
    const appeared = this.#appeared;
    this.#appeared = false;
    if (appeared) this.#rewatch();
    if (appeared || changed) this.#call();
  }

  #accessChanged(path: string): boolean {
    const found = statOf(path);
    const access = found === undefined ? '' : `${found.mode} ${found.uid} ${found.gid} ${found.rdev}`;
    const same = this.#access.get(path) === access;
    if (found === undefined) this.#access.delete(path);
    else this.#access.set(path, access);
    return !same;
  }

  /** Watches the directories there are now: one that was removed and made again is another one. */
  #rewatch(): void {
    // A directory made just before its parent was watched gave no event: so the directories are checked again until none is new.
    let before = '';
    for (let pass = 0; pass < MAX_PASSES; pass++) {
      const existing = new Set(this.#directories().map(nearestExisting));
      const now = [...existing].join('\0');
      if (now === before) return;
      before = now;
      for (const watcher of this.#watchers) watcher.close();
      this.#watchers = [...existing].flatMap((path) => this.#watch(path));
    }
  }

  #watch(path: string): FSWatcher[] {
    const failed = (): void => {
      this.#appeared = true;
      this.#settle(REWATCH_MS);
    };
    try {
      const watcher = watch(path, (event, name) => this.#onEvent(path, event, name));
      return [watcher.on('error', failed)];
    } catch {
      failed();
      return [];
    }
  }
}

function isPattern(path: string): boolean {
  return /[*?[\]{}!()]/.test(path);
}

/** The directories where a match of these patterns can appear. */
function patternDirectories(patterns: readonly string[]): readonly string[] {
  const directories = new Set<string>();
  for (const pattern of patterns.filter((p) => p.startsWith('/'))) {
    const directory = dirname(pattern);
    directories.add(fixedPart(directory));
    if (isPattern(directory)) for (const match of matchesNow(directory)) directories.add(match);
  }
  return [...directories];
}

function fixedPart(directory: string): string {
  let at = directory;
  while (isPattern(at)) at = dirname(at);
  return at;
}

function matchesNow(pattern: string): readonly string[] {
  try {
    return globSync(pattern);
  } catch {
    return [];
  }
}

/** The directory itself, or the nearest one above it, where the next level will appear. */
function nearestExisting(directory: string): string {
  for (let at = directory; ; at = dirname(at)) if (at === '/' || statOf(at)?.isDirectory()) return at;
}

function statOf(path: string): ReturnType<typeof statSync> {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    return undefined;
  }
}
