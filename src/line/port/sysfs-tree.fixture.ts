/** For tests: a /sys and a /dev in a temporary directory, with devices laid out as real kernels lay them out. */
import { mkdirSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { basename, dirname, join, relative } from 'node:path';
import type { TestContext } from 'node:test';
import { temporaryDirectory } from '../../shared/base/temporary.fixture.ts';

export class FixtureTree {
  readonly root: string;
  readonly sysRoot: string;
  readonly devRoot: string;

  constructor(t: TestContext) {
    this.root = temporaryDirectory(t);
    this.sysRoot = join(this.root, 'sys');
    this.devRoot = join(this.root, 'dev');
    for (const dir of ['sys/class/tty', 'sys/devices', 'dev']) mkdirSync(join(this.root, dir), { recursive: true });
  }

  get roots(): { readonly sysRoot: string; readonly devRoot: string } {
    return { sysRoot: this.sysRoot, devRoot: this.devRoot };
  }

  /** A file below the root. */
  async file(path: string, content = ''): Promise<void> {
    await mkdir(dirname(join(this.root, path)), { recursive: true });
    await writeFile(join(this.root, path), content);
  }

  /** A link below the root to another path below it; the target need not be there. */
  async link(path: string, target: string): Promise<void> {
    await mkdir(dirname(join(this.root, path)), { recursive: true });
    await symlink(relative(dirname(join(this.root, path)), join(this.root, target)), join(this.root, path));
  }

  /** A device in /sys/devices with its attributes, its bus and its driver. */
  async device(
    path: string,
    attributes: Readonly<Record<string, string>>,
    names: { readonly bus?: string; readonly driver?: string } = {},
  ): Promise<void> {
    const at = `sys/devices/${path}`;
    await mkdir(join(this.root, at), { recursive: true });
    for (const [name, value] of Object.entries(attributes)) await this.file(`${at}/${name}`, value);
    if (names.bus !== undefined) await this.link(`${at}/subsystem`, `sys/bus/${names.bus}`);
    if (names.driver !== undefined) await this.link(`${at}/driver`, `sys/bus/x/drivers/${names.driver}`);
  }

  /** The two devices of the serial core, which Linux has between a UART and its tty since 6.5; the path of the lower one. */
  async serialCore(path: string): Promise<string> {
    const control = `${path}/${basename(path)}:0`;
    await this.device(control, {}, { bus: 'serial-base', driver: 'ctrl' });
    const port = `${control}/${basename(control)}.0`;
    await this.device(port, {}, { bus: 'serial-base', driver: 'port' });
    return port;
  }

  /** The tty `name` of the device at `path`, in class tty, with its node in /dev. */
  async tty(name: string, path: string, attributes: Readonly<Record<string, string>> = {}): Promise<void> {
    const at = `sys/devices/${path}/tty/${name}`;
    await this.file(`${at}/dev`, '4:64\n');
    for (const [key, value] of Object.entries(attributes)) await this.file(`${at}/${key}`, value);
    await this.link(`${at}/device`, `sys/devices/${path}`);
    await this.link(`sys/class/tty/${name}`, at);
    await this.file(`dev/${name}`);
  }

  /** A USB adapter with one usb-serial port, as ftdi_sio makes it. */
  async usbSerial(
    name: string,
    location: string,
    attributes: Readonly<Record<string, string>>,
    driver: string,
  ): Promise<void> {
    const device = `platform/usb1/${location}`;
    await this.device(device, { bNumInterfaces: ' 1\n', ...attributes }, { bus: 'usb', driver: 'usb' });
    await this.device(`${device}/${location}:1.0`, { bInterfaceNumber: '00\n' }, { bus: 'usb', driver });
    const port = `${device}/${location}:1.0/${name}`;
    await this.device(port, { port_number: '0\n' }, { bus: 'usb-serial', driver });
    await this.tty(name, port);
  }
}

export const ftdi = {
  idVendor: '0403\n',
  idProduct: '6001\n',
  serial: 'A50285BI\n',
  manufacturer: 'FTDI\n',
  product: 'FT232R USB UART\n',
} as const;
