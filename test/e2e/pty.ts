/** Pseudo-terminals behind names that stay the same, to offer as ports by serial.extra_ports. */
import { readlinkSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { openPty, type Pty } from '../../src/line/port/simulated/simulated-line.ts';

const open = new Set<NamedPty>();
// After the hooks of the file itself, as in daemon.ts.
setImmediate(() =>
  after(() => {
    for (const pty of open) pty.close();
  }),
);

export interface NamedPty extends Pty {
  /**
   * As if the cable were pulled out: the device hangs up, and its name is gone. The name goes first: the kernel gives the number of the
   * terminal to the next one of any process, and a service that looks for its port would open that.
   */
  close(): void;
  /** The link, which is the port's name. */
  readonly portName: string;
  /** What the service has written, as far as it was read here (reading begins with collect()). */
  readonly received: () => Buffer;
}

/** A PTY behind the link `dir/name`. With `collect`, what the service writes is read; without, no process reads it. */
export function namedPty(dir: string, name = 'port0', collect = true): NamedPty {
  const pty = openPty();
  const portName = join(dir, name);
  point(portName, pty.slavePath);
  const parts: Buffer[] = [];
  if (collect) pty.onData((bytes) => parts.push(Buffer.from(bytes)));
  const named = {
    ...pty,
    close() {
      open.delete(named);
      if (targetOf(portName) === pty.slavePath) rmSync(portName);
      pty.close();
    },
    portName,
    received: () => Buffer.concat(parts),
  };
  open.add(named);
  return named;
}

/** Makes the link, or moves it to another device, in one step. */
export function point(link: string, target: string): void {
  const fresh = `${link}.new`;
  rmSync(fresh, { force: true });
  symlinkSync(target, fresh);
  renameSync(fresh, link);
}

function targetOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    return '';
  }
}
