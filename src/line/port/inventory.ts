/** The serial ports of this machine, from sysfs and serial.extra_ports. No udevadm: it may be missing, and it is slow. */
import { access, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { deviceNumber } from './device-number.ts';
import { type ExtraPort, extraPorts } from './extra-ports.ts';
import { descriptionOf, hardwareIdOf, type PortFacts, stableIdOf } from './hardware-id.ts';
import { linkDirectoriesOf, portLinks } from './port-links.ts';
import { PortWatch, patternDirectories } from './port-watch.ts';
import type { Inventory, Port } from './ports.ts';
import { sysfsPorts } from './sysfs.ts';
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
