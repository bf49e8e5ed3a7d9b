/** The simulated line: a real pseudo-terminal with a chatty device behind it, under a name that stays the same. */
import { mkdir, readlink, rename, symlink, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock, Timer } from '../../../shared/base/clock.ts';
import { ChattyDevice } from './chatty-device.ts';

export interface SimulatedLineOptions {
  /** Gets the link sim0; made if it is not there. */
  readonly runtimeDir: string;
  readonly clock: Clock;
}

export interface SimulatedLine {
  /** `<runtimeDir>/sim0`: for serial.extra_ports. */
  readonly portName: string;
  close(): Promise<void>;
}

export const SIMULATED_DESCRIPTION = 'Simulated line';
const LINK_NAME = 'sim0';
/** Half of what the terminal holds for its reader (4,096 bytes): with more unread, answers are dropped. */
const MAX_UNREAD_BYTES = 2_048;
/** How soon "SET RATE" after a pause is noticed when reports are off. */
const IDLE_LOOK_MS = 1_000;

function simulatedPortName(runtimeDir: string): string {
  return join(runtimeDir, LINK_NAME);
}

export async function startSimulatedLine(options: SimulatedLineOptions): Promise<SimulatedLine> {
  // Loads koffi, which a service without the simulated line does not need at start.
  const { openPty } = await import('./pty.ts');
  const { clock, runtimeDir } = options;
  const portName = simulatedPortName(runtimeDir);
  await mkdir(runtimeDir, { recursive: true });
  const pty = openPty();
  try {
    await placeLink(pty.slavePath, portName);
  } catch (thrown) {
    pty.close();
    throw thrown;
  }
  const device = new ChattyDevice(clock.monoMs());
  let timer: Timer;

  const say = (bytes: Uint8Array, unreadLimit: number): void => {
    if (bytes.length === 0 || pty.unread() > unreadLimit) return;
    // What does not fit at once is dropped: a device does not wait for its listener.
    const now = new AbortController();
    void pty.write(bytes, now.signal);
    now.abort();
  };
  const tick = (): void => {
    // Unread since the last report: no client listens, and a later one wants no old temperatures.
    say(device.report(clock.monoMs()), 0);
    plan();
  };
  const plan = (): void => {
    const nextMs = device.nextMs ?? clock.monoMs() + IDLE_LOOK_MS;
    timer = clock.timer(Math.max(0, nextMs - clock.monoMs()), tick);
  };
  pty.onData((bytes) => {
    say(device.receive(bytes, clock.monoMs()), MAX_UNREAD_BYTES);
    // A new rate counts at once.
    timer.cancel();
    plan();
  });
  plan();

  return {
    portName,
    async close() {
      timer.cancel();
      pty.close();
      // Not if another instance has put its own there meanwhile.
      const target = await readlink(portName).catch(() => '');
      if (target === pty.slavePath) await unlink(portName).catch(() => {});
    },
  };
}

/** Replaces what an earlier run left, in one step. */
async function placeLink(target: string, link: string): Promise<void> {
  const fresh = `${link}.${process.pid}`;
  await unlink(fresh).catch(() => {});
  await symlink(target, fresh);
  await rename(fresh, link);
}
