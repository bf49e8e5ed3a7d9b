/** A container with lineside's package installed in it, and a pseudo-terminal as its serial port. */
import { chmodSync, chownSync, copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { openPty, type Pty } from '../../src/line/port/simulated/simulated-line.ts';
import { bootContainer, type Container, debianPackage } from './nspawn.ts';

export interface Box extends Container {
  readonly pty: Pty;
  /** What the service has written to the port. */
  received(): Buffer;
}

export const PORT = '/dev/ttyFIELD';
/** Debian's group of serial ports has this number everywhere. */
const DIALOUT = 20;

/** Booted, package installed, both processes ready. `options`: more for systemd-nspawn. */
export async function bootBox(options: readonly string[] = [], tree?: string): Promise<Box> {
  const box = await bootBare(options, tree);
  await box.sh('dpkg --install /root/lineside.deb 2>&1');
  await box.until('both processes ready', 'systemctl is-active lineside lineside-hub');
  return box;
}

/** Booted, with the package at /root/lineside.deb. */
export async function bootBare(options: readonly string[] = [], tree?: string): Promise<Box> {
  const deb = debianPackage();
  const pty = openPty();
  // As udev makes a serial port.
  chownSync(pty.slavePath, 0, DIALOUT);
  chmodSync(pty.slavePath, 0o660);
  const parts: Buffer[] = [];
  pty.onData((bytes) => parts.push(Buffer.from(bytes)));
  const container = await bootContainer([`--bind=${pty.slavePath}:${PORT}`, ...options], () => pty.close(), tree);
  copyFileSync(deb, container.path('/root/lineside.deb'));
  // PTYs are not listed automatically. Below /run, so that the configuration is the package's own.
  dropIn(container, 'lineside.service', `[Service]\nEnvironment=LINESIDE_SERIAL_EXTRA_PORTS=${PORT}\n`);
  return { ...container, pty, received: () => Buffer.concat(parts) };
}

/** Adds to a unit, or makes one; systemd reads it at the next daemon-reload. */
export function dropIn(container: Container, unit: string, text: string, name = 'test'): void {
  const directory = container.path(`/run/systemd/system/${unit}.d`);
  mkdirSync(directory, { recursive: true });
  writeFileSync(`${directory}/${name}.conf`, text);
}
