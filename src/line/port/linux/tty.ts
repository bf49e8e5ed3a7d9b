/**
 * From a path to an open, configured, checked tty: guard (nothing changed yet), serialport's open, the whole termios,
 * read-back, reader, exclusive use. What fails on the way is undone in reverse. Then reading is tty.ReadStream's (it alone
 * reported every unplug), writing TtyWriter's, all else ioctl on the guard's descriptor. Loads koffi and serialport (40 ms):
 * imported at the first Open.
 */

import { closeSync } from 'node:fs';
import { ReadStream } from 'node:tty';
import { SerialPort } from 'serialport';
import { type Clock, endsWithin, systemClock, type Timer } from '../../../shared/base/clock.ts';
import { LinesideError, messageOf, systemCode } from '../../../shared/base/errors.ts';
import { duplicate, writeSome } from '../../../shared/base/libc.ts';
import type { PortToOpen } from '../inventory.ts';
import type { KernelCounters, ModemLines } from '../line.ts';
import type { EffectiveSettings, LineSettings, OutgoingLines } from '../line-config.ts';
import { claimExclusive, guardPort, openError, type PortGuard } from './port-guard.ts';
import { checkSettings, hasOnePointFive, rawTermios, settingNotTaken, settingsOf } from './termios.ts';
import {
  discardBoth,
  discardInput,
  getCounters,
  getModemLines,
  getTermios,
  setBreak,
  setExclusive,
  setLowLatency,
  setOutgoingLines,
  setTermios,
} from './tty-ioctl.ts';
import { TtyWriter, type WriteResult } from './writer.ts';

/** A close ends within 2 s whatever the line does; this leaves the rest of the service its share. */
export const CLOSE_LIMIT_MS = 1_500;
/** While reading is paused no read would show an unplug: the interval at which the port is checked. */
const PAUSED_LOOK_MS = 250;

export interface DeviceEvents {
  /** Bytes as the kernel gave them; the array is the receiver's to keep. */
  data(bytes: Uint8Array): void;
  /** The port is gone (unplugged, driver gone, read error). At most once, never after close() was called. */
  lost(cause: Error): void;
}

interface TtyOptions {
  readonly port: PortToOpen;
  readonly effective: EffectiveSettings;
  readonly guard: PortGuard;
  readonly bound: { close(): Promise<void> };
  readonly stream: ReadStream;
  readonly clock: Clock;
}

/** One opened port, real or a PTY. Single-use: once lost or closed it is never used again; reconnecting opens another one. */
export type Device = Pick<TtyDevice, keyof TtyDevice>;

export class TtyDevice {
  /** The device node that is open ("/dev/ttyUSB0"). */
  readonly path: string;
  /** Settings as the kernel has them now. */
  readonly effective: EffectiveSettings;
  readonly #options: TtyOptions;
  readonly #writer: TtyWriter;
  #events: DeviceEvents | undefined;
  #lost: Error | undefined;
  #closed = false;
  #released: Promise<void> | undefined;
  #pausedLook: Timer | undefined;
  #break: { readonly timer: Timer; readonly done: () => void } | undefined;

  constructor(options: TtyOptions) {
    this.path = options.port.devicePath;
    this.effective = options.effective;
    this.#options = options;
    const write = (data: Uint8Array): number => writeSome(options.guard.fd, data);
    this.#writer = new TtyWriter({ write, clock: options.clock, onDead: (cause) => this.#lose(cause) });
    options.stream.on('error', (cause) => this.#lose(cause));
    options.stream.on('end', () => this.#lose(new Error('the line hung up')));
    options.stream.on('close', () => this.#lose(new Error('the line hung up')));
  }

  /** Starts delivery; called once. Nothing that arrived before is lost. */
  start(events: DeviceEvents): void {
    this.#events = events;
    if (this.#lost !== undefined) {
      const cause = this.#lost;
      queueMicrotask(() => this.#closed || events.lost(cause));
      return;
    }
    // libuv reads into a fresh array each time: it is the receiver's to keep.
    this.#options.stream.on('data', (bytes: Uint8Array) => events.data(bytes));
  }

  /** Stops reading (the kernel buffers, then the line overruns or is held by flow control). */
  pauseReading(): void {
    if (this.#released !== undefined) return;
    this.#options.stream.pause();
    this.#pausedLook ??= this.#options.clock.timer(PAUSED_LOOK_MS, () => this.#lookWhilePaused());
  }

  resumeReading(): void {
    this.#pausedLook?.cancel();
    this.#pausedLook = undefined;
    if (this.#released === undefined) this.#options.stream.resume();
  }

  /** See TtyWriter. */
  write(data: Uint8Array, signal: AbortSignal, cancel?: AbortSignal): Promise<WriteResult> {
    return this.#writer.write(data, signal, cancel);
  }

  /** Throws LinesideError UNSUPPORTED where the port has none. */
  modemLines(): ModemLines {
    return this.#control('modem lines', (fd) => getModemLines(fd));
  }

  setModemLines(lines: OutgoingLines): ModemLines {
    return this.#control('modem lines', (fd) => {
      setOutgoingLines(fd, lines);
      return getModemLines(fd);
    });
  }

  /** Resolves when the break has ended. */
  async sendBreak(durationMs: number): Promise<void> {
    // The kernel takes TIOCSBRK on a PTY without a word and does nothing.
    if (this.#options.port.isPty) throw unsupported(this.path, 'break');
    if (this.#break !== undefined) throw new LinesideError('PORT_IO', `${this.path}: a break is already being sent`);
    this.#control('break', (fd) => setBreak(fd, true));
    await new Promise<void>((done) => {
      this.#break = { done, timer: this.#options.clock.timer(durationMs, () => this.#endBreak()) };
    });
  }

  /** undefined where the driver has none. */
  kernelCounters(): KernelCounters | undefined {
    if (this.#released !== undefined) return undefined;
    try {
      return getCounters(this.#options.guard.fd);
    } catch {
      return undefined;
    }
  }

  /** Discards what was not transmitted, ends a write under way, closes. Never rejects, idempotent, ends within CLOSE_LIMIT_MS. */
  close(): Promise<void> {
    this.#closed = true;
    return this.#release(new LinesideError('NOT_SENT', 'the port was closed'));
  }

  #lose(cause: Error): void {
    if (this.#lost !== undefined || this.#released !== undefined) return;
    this.#lost = cause;
    // At once, not at the next close(): a USB adapter that returns gets its old name only if it is free.
    void this.#release(new LinesideError('PORT_IO', `the port was lost: ${messageOf(cause)}`, { cause }));
    this.#events?.lost(cause);
  }

  #release(why: LinesideError): Promise<void> {
    this.#released ??= this.#releaseOnce(why);
    return this.#released;
  }

  async #releaseOnce(why: LinesideError): Promise<void> {
    const { guard, bound, stream, clock } = this.#options;
    this.#pausedLook?.cancel();
    this.#endBreak();
    this.#writer.end(why);
    // Untransmitted bytes would hold the last close for up to 30 s (closing_wait).
    attempt(() => discardBoth(guard.fd));
    attempt(() => setExclusive(guard.fd, false));
    stream.destroy();
    // serialport's descriptor is the last and is closed on a pool thread: if a close waits, it is that one.
    const closing = guard.close().then(() => bound.close());
    await endsWithin(
      clock,
      CLOSE_LIMIT_MS,
      closing.catch(() => undefined),
    );
  }

  #endBreak(): void {
    const current = this.#break;
    if (current === undefined) return;
    this.#break = undefined;
    current.timer.cancel();
    attempt(() => setBreak(this.#options.guard.fd, false));
    current.done();
  }

  #lookWhilePaused(): void {
    this.#pausedLook = undefined;
    try {
      getTermios(this.#options.guard.fd);
    } catch (thrown) {
      return this.#lose(thrown instanceof Error ? thrown : new Error(messageOf(thrown)));
    }
    this.#pausedLook = this.#options.clock.timer(PAUSED_LOOK_MS, () => this.#lookWhilePaused());
  }

  #control<T>(what: string, call: (fd: number) => T): T {
    if (this.#released !== undefined) throw new LinesideError('NOT_CONNECTED', `${this.path} is not open any more`);
    try {
      return call(this.#options.guard.fd);
    } catch (thrown) {
      if (['ENOTTY', 'EINVAL'].includes(systemCode(thrown))) throw unsupported(this.path, what, thrown);
      throw new LinesideError('PORT_IO', `${this.path}: ${messageOf(thrown)}`, { cause: thrown });
    }
  }
}

function unsupported(path: string, what: string, cause?: unknown): LinesideError {
  return new LinesideError('UNSUPPORTED', `${path} has no ${what}`, cause === undefined ? {} : { cause });
}

function attempt(call: () => void): void {
  try {
    call();
  } catch {
    // The port may be lost already: there is nothing to undo.
  }
}

/** serialport's part of an open port. */
interface BoundPort {
  readonly fd: number;
  close(): Promise<void>;
}

/**
 * Opens and configures a port and reads its settings back. Rejects with a LinesideError: PORT_NOT_FOUND, PORT_BUSY,
 * PORT_PERMISSION, PORT_IO, SETTING_REFUSED (the message names the setting, the requested and the actual value).
 * A port that is held by another process keeps its settings.
 */
export async function openTty(port: PortToOpen, settings: LineSettings): Promise<Device> {
  checkSettings(port, settings);
  const undo: (() => unknown)[] = [];
  try {
    const guard = await guardPort(port);
    undo.push(
      () => guard.close(),
      () => setTermios(guard.fd, guard.former),
    );
    const bound = await bind(port);
    undo.push(() => bound.close());
    const effective = configure(port, settings, guard);
    const stream = openReader(bound.fd);
    undo.push(() => stream.destroy());
    await claimExclusive(port, guard.fd);
    return new TtyDevice({ port, effective, guard, bound, stream, clock: systemClock });
  } catch (thrown) {
    for (const step of undo.reverse()) {
      // The port may be lost, or never took its settings: the first error is the one to report.
      await Promise.resolve()
        .then(step)
        .catch(() => undefined);
    }
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
