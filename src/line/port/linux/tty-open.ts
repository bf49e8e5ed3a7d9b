/**
 * From a path to an open, configured, checked device: guard (nothing changed yet), serialport's open, the whole
 * termios, read-back, reader, exclusive use. What fails on the way is undone in reverse.
 */
import { closeSync } from 'node:fs';
import { ReadStream } from 'node:tty';
import { SerialPort } from 'serialport';
import { systemClock } from '../../../shared/base/clock.ts';
import { LinesideError, systemCode } from '../../../shared/base/errors.ts';
import { duplicate } from '../../../shared/base/libc.ts';
import type { EffectiveSettings, LineSettings } from '../settings.ts';
import { checkSettings, hasOnePointFive } from './check-settings.ts';
import type { Device, PortToOpen } from './device.ts';
import { openError } from './open-error.ts';
import { claimExclusive, guardPort, type PortGuard } from './port-guard.ts';
import { rawTermios, settingNotTaken, settingsOf, type Termios } from './termios.ts';
import { TtyDevice } from './tty.ts';
import { discardInput, getTermios, setLowLatency, setTermios } from './tty-ioctl.ts';

/** serialport's part of an open port. */
interface BoundPort {
  readonly fd: number;
  close(): Promise<void>;
}

export async function openTtyNow(port: PortToOpen, settings: LineSettings): Promise<Device> {
  checkSettings(port, settings);
  const guard = await guardPort(port);
  try {
    const bound = await bind(port);
    try {
      const effective = configure(port, settings, guard);
      const stream = openReader(bound.fd);
      try {
        await claimExclusive(port, guard.fd);
      } catch (thrown) {
        stream.destroy();
        throw thrown;
      }
      return new TtyDevice({ port, effective, guard, bound, stream, clock: systemClock });
    } catch (thrown) {
      await bound.close().catch(() => {});
      throw thrown;
    }
  } catch (thrown) {
    restore(guard.fd, guard.former);
    await guard.close().catch(() => {});
    throw openError(port.devicePath, thrown);
  }
}

/** A rate that every driver has; the wanted one follows with the rest of the settings. */
const BINDING_BAUD = 9600;

async function bind(port: PortToOpen): Promise<BoundPort> {
  // The lock is the guard's. HUPCL would drop DTR at the close.
  const options = { path: port.devicePath, baudRate: BINDING_BAUD, lock: false, hupcl: false };
  const bound = await SerialPort.binding.open(options);
  if (!('fd' in bound) || typeof bound.fd !== 'number')
    throw new LinesideError('INTERNAL', 'serialport gave no descriptor');
  return { fd: bound.fd, close: () => bound.close() };
}

function configure(port: PortToOpen, settings: LineSettings, guard: PortGuard): EffectiveSettings {
  try {
    setTermios(guard.fd, rawTermios(settings, guard.former));
  } catch (thrown) {
    if (systemCode(thrown) !== 'EINVAL') throw thrown;
    const text = `cannot open ${port.devicePath}: the driver refused the settings`;
    throw new LinesideError('SETTING_REFUSED', text, { cause: thrown });
  }
  // What came in while the line had serialport's settings was sampled at the wrong rate.
  discardInput(guard.fd);
  if (port.isPty) return { ...settings, unverified: true, driver: port.driver };
  const got = settingsOf(getTermios(guard.fd), hasOnePointFive(port.driver));
  const fault = settingNotTaken(settings, got);
  if (fault !== undefined) throw new LinesideError('SETTING_REFUSED', `cannot open ${port.devicePath}: ${fault}`);
  try {
    setLowLatency(guard.fd);
  } catch {
    // Only a wish: most drivers know nothing of it.
  }
  return { ...got, unverified: false, driver: port.driver };
}

/**
 * A tty.ReadStream on a descriptor of its own. libuv reopens the tty and puts the new file in place of the descriptor
 * it was given as well; where it cannot reopen it, it keeps the one it got. Either way the stream owns and closes
 * exactly one, and here none is left over.
 */
function openReader(fd: number): ReadStream {
  const own = duplicate(fd);
  try {
    const stream = new ReadStream(own);
    if (streamDescriptor(stream) !== own) closeSync(own);
    return stream;
  } catch (thrown) {
    closeSync(own);
    throw thrown;
  }
}

function streamDescriptor(stream: object): number | undefined {
  const handle: unknown = '_handle' in stream ? stream._handle : undefined;
  if (typeof handle !== 'object' || handle === null || !('fd' in handle)) return undefined;
  return typeof handle.fd === 'number' ? handle.fd : undefined;
}

function restore(fd: number, former: Termios): void {
  try {
    setTermios(fd, former);
  } catch {
    // The port is gone, or never took these: the error that brought us here says more.
  }
}
