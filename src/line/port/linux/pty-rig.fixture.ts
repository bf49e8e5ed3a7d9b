/** For tests with real pseudo-terminals: a port, the far end of its line, and ways to wait without sleeping blindly. */
import { createHash, type Hash } from 'node:crypto';
import { closeSync, constants, openSync, readdirSync } from 'node:fs';
import type { TestContext } from 'node:test';
import type { PortToOpen } from '../inventory.ts';
import { FlowControl, type LineSettings, Parity, StopBits } from '../line-config.ts';
import { openPty, type Pty } from '../simulated/simulated-line.ts';
import { type Device, openTty } from './tty.ts';

export const eightNone: LineSettings = {
  baudRate: 115_200,
  dataBits: 8,
  parity: Parity.none,
  stopBits: StopBits.one,
  flowControl: FlowControl.none,
};
export const never = new AbortController().signal;

/** Closed at the end of the test. */
export function ptyOf(t: TestContext): Pty {
  const pty = openPty();
  t.after(() => pty.close());
  return pty;
}

/** A descriptor of the slave beside the one under test, to read the line's settings. */
export function watchedBy(t: TestContext, pty: Pty): number {
  const fd = openSync(pty.slavePath, constants.O_RDWR | constants.O_NOCTTY);
  t.after(() => closeSync(fd));
  return fd;
}

export function ptyPort(pty: Pty): PortToOpen {
  return { devicePath: pty.slavePath, driver: 'pty_slave', isPty: true };
}

export interface Rig {
  readonly pty: Pty;
  readonly device: Device;
  readonly received: { bytes: number; readonly hash: Hash };
  readonly losses: Error[];
  readonly lost: Promise<Error>;
}

/** An open and started port with its far end. */
export async function openRig(t: TestContext): Promise<Rig> {
  const pty = ptyOf(t);
  const device = await openTty(ptyPort(pty), eightNone);
  const received = { bytes: 0, hash: createHash('sha256') };
  const losses: Error[] = [];
  const { promise: lost, resolve } = Promise.withResolvers<Error>();
  device.start({
    data(bytes) {
      received.bytes += bytes.length;
      received.hash.update(bytes);
    },
    lost(cause) {
      losses.push(cause);
      resolve(cause);
    },
  });
  return { pty, device, received, losses, lost };
}

export function openDescriptors(): number {
  return readdirSync('/proc/self/fd').length;
}

/** Every byte value, in an order without a period that a buffer size could hide. */
export function pattern(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  let state = 1;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}
