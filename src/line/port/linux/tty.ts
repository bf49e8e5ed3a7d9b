/**
 * From a path to an open, configured, checked tty: guard (nothing changed yet), serialport's open, the whole termios,
 * read-back, reader, exclusive use. What fails on the way is undone in reverse. Then reading is tty.ReadStream's (it alone
 * reported every unplug), writing TtyWriter's, all else ioctl on the guard's descriptor. Loads koffi and serialport (40 ms):
 * imported at the first Open.
 */

import { closeSync, readSync } from 'node:fs';
import { ReadStream } from 'node:tty';
import { SerialPort } from 'serialport';
import { type Clock, endsWithin, pause, systemClock, type Timer } from '../../../shared/base/clock.ts';
import { LinesideError, messageOf, systemCode } from '../../../shared/base/errors.ts';
import { duplicate, writeSome } from '../../../shared/base/libc.ts';
import type { Termios } from '../../../shared/base/termios.ts';
import { CHUNK_BYTES, characterMs } from '../chunks.ts';
import type { PortToOpen } from '../inventory.ts';
import type { KernelCounters, LineError, ModemChanges, ModemLines } from '../line.ts';
import { type EffectiveSettings, FlowControl, type LineSettings, type OutgoingLines } from '../line-config.ts';
import { isMarked, LineErrorDecoder } from '../line-errors.ts';
import { claimExclusive, guardPort, openError, type PortGuard } from './port-guard.ts';
import { checkSettings, hasOnePointFive, rawTermios, settingNotTaken, settingsOf, withMarks } from './termios.ts';
import * as ioctl from './tty-ioctl.ts';
import { TtyWriter, type WriteResult } from './writer.ts';

/** A close ends within 2 s whatever the line does; this leaves the rest of the service its share. */
export const CLOSE_LIMIT_MS = 1_500;
/** While reading is paused no read would show an unplug: the interval at which the port is checked. */
const PAUSED_LOOK_MS = 250;
/** Between two looks at what is still to be transmitted. */
const MAX_DRAIN_LOOK_MS = 64;
/** An adapter that flow control has held still has bytes when its driver has none, and few drivers know of them. */
const HARDWARE_BUFFER_CHARACTERS = 64;
/** Until an adapter has bytes, and the driver what it says of them: some frames of USB, of 1 ms each. */
const USB_DELAY_MS = 4;

export interface DeviceEvents {
  /** Bytes as the line gave them; the array is the receiver's to keep. `errors`: where they were asked for with markErrors(). */
  data(bytes: Uint8Array, errors?: readonly LineError[]): void;
  /** The port is gone (unplugged, driver gone, read error). At most once, never after close() was called. */
  lost(cause: Error): void;
}

interface TtyOptions {
  readonly port: PortToOpen;
  readonly effective: EffectiveSettings;
  readonly guard: PortGuard;
  readonly bound: { close(): Promise<void> };
  readonly reader: Reader;
  readonly clock: Clock;
}

/** One opened port, real or a PTY. Single-use: once lost or closed it is never used again; reconnecting opens another one. */
export type Device = Pick<TtyDevice, keyof TtyDevice>;

export class TtyDevice {
  /** The device node that is open ("/dev/ttyUSB0"). */
  readonly path: string;
  readonly #options: TtyOptions;
  readonly #writer: TtyWriter;
  #effective: EffectiveSettings;
  #events: DeviceEvents | undefined;
  /** Line errors are asked for: the kernel marks them. */
  #decoder: LineErrorDecoder | undefined;
  #lost: Error | undefined;
  #closed = false;
  #released: Promise<void> | undefined;
  #pausedLook: Timer | undefined;
  #break: { timer: Timer; readonly done: () => void } | undefined;
  /** The line has sent what was written, if nothing holds it. */
  #sentAtMs = 0;

  constructor(options: TtyOptions) {
    this.path = options.port.devicePath;
    this.#effective = options.effective;
    this.#options = options;
    const write = (data: Uint8Array): number => writeSome(options.guard.fd, data);
    this.#writer = new TtyWriter({ write, clock: options.clock, onDead: (cause) => this.#lose(cause) });
    const { stream } = options.reader;
    stream.on('error', (cause) => this.#lose(cause));
    stream.on('end', () => this.#lose(new Error('the line hung up')));
    stream.on('close', () => this.#lose(new Error('the line hung up')));
  }

  /** Settings as the kernel has them now. */
  get effective(): EffectiveSettings {
    return this.#effective;
  }

  /** Starts delivery; called once. Nothing that arrived before is lost. */
  start(events: DeviceEvents): void {
    this.#events = events;
    if (this.#lost !== undefined) {
      const cause = this.#lost;
      queueMicrotask(() => this.#closed || events.lost(cause));
      return;
    }
    const { reader } = this.#options;
    reader.onBytes = (bytes) => this.#deliver(bytes);
    reader.stream.resume();
  }

  #deliver(read: Uint8Array): void {
    if (read.length === 0) return;
    if (this.#decoder === undefined) return this.#events?.data(read);
    const { bytes, errors } = this.#decoder.decode(read);
    this.#events?.data(bytes, errors);
  }

  /** Stops reading (the kernel buffers, then the line overruns or is held by flow control). */
  pauseReading(): void {
    if (this.#released !== undefined) return;
    this.#options.reader.stream.pause();
    this.#pausedLook ??= this.#options.clock.timer(PAUSED_LOOK_MS, () => this.#lookWhilePaused());
  }

  resumeReading(): void {
    this.#pausedLook?.cancel();
    this.#pausedLook = undefined;
    if (this.#released === undefined) this.#options.reader.stream.resume();
  }

  /** See TtyWriter. */
  async write(data: Uint8Array, signal: AbortSignal, cancel?: AbortSignal): Promise<WriteResult> {
    const beginMs = Math.max(this.#sentAtMs, this.#options.clock.monoMs());
    const result = await this.#writer.write(data, signal, cancel);
    this.#sentAtMs = beginMs + result.accepted * characterMs(this.#effective);
    return result;
  }

  /** Throws LinesideError UNSUPPORTED where the port has none. */
  modemLines(): ModemLines {
    return this.#control('modem lines', (fd) => ioctl.getModemLines(fd));
  }

  setModemLines(lines: OutgoingLines): ModemLines {
    return this.#control('modem lines', (fd) => {
      ioctl.setOutgoingLines(fd, lines);
      return ioctl.getModemLines(fd);
    });
  }

  get isUsb(): boolean {
    return /^\/dev\/tty(USB|ACM)/.test(this.path);
  }

  /** undefined where the driver does not count. */
  modemChanges(): ModemChanges | undefined {
    try {
      return this.#control('modem lines', ioctl.getModemChanges);
    } catch {
      return undefined;
    }
  }

  /** Changes the settings in place. SETTING_REFUSED, and the former ones are back, where the driver did not take one. */
  configure(settings: LineSettings): void {
    const { port } = this.#options;
    checkSettings(port, settings);
    this.#control('settings', (fd) => {
      const former = ioctl.getTermios(fd);
      try {
        this.#effective = apply(port, settings, fd, former, this.#decoder !== undefined);
      } catch (thrown) {
        attempt(() => ioctl.setTermios(fd, former));
        throw thrown;
      } finally {
        this.#keepBreak(fd);
      }
    });
  }

  /** Delivers what has arrived and was not read yet. */
  takeArrived(): void {
    this.#deliver(this.#control('received bytes', (fd) => this.#arrived(fd, ioctl.untaken(fd))));
  }

  /** From now on line errors come with the bytes, or no longer; the bytes are the same. */
  markErrors(on: boolean): void {
    const former = this.#decoder;
    if (on === (former !== undefined)) return;
    const [before, between] = this.#control('line errors', (fd) => {
      const next = withMarks(ioctl.getTermios(fd), on);
      const count = ioctl.untaken(fd);
      ioctl.setTermios(fd, next);
      this.#keepBreak(fd);
      const unsure = ioctl.untaken(fd) - count;
      return [this.#arrived(fd, count), this.#arrived(fd, unsure)] as const;
    });
    const fresh = new LineErrorDecoder(() => this.kernelCounters());
    this.#deliver(before);
    // The kernel has no call for both: what arrived meanwhile shows itself whether it is marked.
    this.#decoder = isMarked(between) ? (former ?? fresh) : undefined;
    this.#deliver(between);
    this.#decoder = on ? fresh : undefined;
  }

  #arrived(fd: number, count: number): Uint8Array {
    const bytes = Buffer.allocUnsafeSlow(count);
    return count === 0 ? bytes : bytes.subarray(0, readSync(fd, bytes));
  }

  /** Drops what the kernel has not transmitted. */
  discardUnsent(): void {
    this.#control('transmit side', (fd) => ioctl.discard(fd, 'output'));
    this.#sentAtMs = 0;
  }

  /** Resolves when the last bit has left the port (see drain in lineside.proto), or when the signal fires. */
  async drained(signal: AbortSignal): Promise<void> {
    const { port, clock } = this.#options;
    const oneMs = characterMs(this.#effective);
    const still = (): Promise<void> | undefined => {
      const bytes = this.#control('transmit side', ioctl.unsent);
      if (bytes > 0) return pause(clock, Math.min(MAX_DRAIN_LOOK_MS, Math.max(1, bytes * oneMs)), signal);
      // A PTY has no transmitter.
      if (port.isPty) return undefined;
      // An adapter takes bytes long before it has sent them, and its driver knows what the adapter said a while ago.
      const leftMs = this.#sentAtMs + (this.isUsb ? USB_DELAY_MS : 0) - clock.monoMs();
      if (leftMs > 0) return pause(clock, leftMs, signal);
      const isEmpty = this.#isTransmitterEmpty();
      // To ask a USB adapter takes a millisecond or more.
      if (isEmpty === undefined && this.#isHeldByCts()) return pause(clock, MAX_DRAIN_LOOK_MS, signal);
      return isEmpty === false ? pause(clock, Math.max(1, oneMs), signal) : undefined;
    };
    for (let wait = still(); wait !== undefined && !signal.aborted; wait = still()) await wait;
    if (!port.isPty && this.#isTransmitterEmpty() === undefined)
      await pause(clock, HARDWARE_BUFFER_CHARACTERS * oneMs, signal);
  }

  /** undefined: the driver does not know. */
  #isTransmitterEmpty(): boolean | undefined {
    try {
      return this.#control('transmit side', ioctl.isTransmitterEmpty);
    } catch (error) {
      if (error instanceof LinesideError && error.code === 'UNSUPPORTED') return undefined;
      throw error;
    }
  }

  /** What an adapter holds then leaves it later, and its driver knows nothing of that. */
  #isHeldByCts(): boolean {
    return this.#effective.flowControl === FlowControl.rtscts && !this.modemLines().cts;
  }

  /** Resolves when the break has ended. */
  async sendBreak(durationMs: number, signal: AbortSignal): Promise<void> {
    const ended = Promise.withResolvers<void>();
    await this.beginBreak(durationMs, signal, ended.resolve);
    await ended.promise;
  }

  /** Resolves when the break has begun, behind the last bit of what was written; it ends with endBreak(), or by itself. */
  async beginBreak(longestMs: number, signal: AbortSignal, done = (): void => {}): Promise<void> {
    // The kernel takes TIOCSBRK on a PTY without a word and does nothing.
    if (this.#options.port.isPty) throw unsupported(this.path, 'break');
    // TIOCSBRK blocks its thread until the port has sent all: for ever, if flow control holds it.
    await this.drained(signal);
    signal.throwIfAborted();
    if (this.#break !== undefined) throw new LinesideError('PORT_IO', `${this.path}: a break is already being sent`);
    this.#control('break', (fd) => ioctl.setBreak(fd, true));
    const { clock } = this.#options;
    const endsAtMs = clock.monoMs() + longestMs;
    const wait = (): Timer =>
      clock.timer(endsAtMs - clock.monoMs(), () => {
        // Node counts a timer from the beginning of the turn that set it, which may have been long.
        if (clock.monoMs() < endsAtMs) current.timer = wait();
        else this.endBreak();
      });
    const current = { done, timer: wait() };
    this.#break = current;
  }

  /** Drivers end a break when they set anything: it goes on after microseconds. TIOCSBRK would wait for what was written since. */
  #keepBreak(fd: number): void {
    if (this.#break !== undefined && ioctl.unsent(fd) === 0) attempt(() => ioctl.setBreak(fd, true));
  }

  /** undefined where the driver has none. */
  kernelCounters(): KernelCounters | undefined {
    if (this.#released !== undefined) return undefined;
    try {
      return ioctl.getCounters(this.#options.guard.fd);
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
    const { guard, bound, reader, clock } = this.#options;
    this.#pausedLook?.cancel();
    this.endBreak();
    this.#writer.end(why);
    // Untransmitted bytes would hold the last close for up to 30 s (closing_wait).
    attempt(() => ioctl.discard(guard.fd, 'both'));
    attempt(() => ioctl.setExclusive(guard.fd, false));
    reader.stream.destroy();
    // serialport's descriptor is the last and is closed on a pool thread: if a close waits, it is that one.
    const closing = guard.close().then(() => bound.close());
    await endsWithin(
      clock,
      CLOSE_LIMIT_MS,
      closing.catch(() => undefined),
    );
  }

  /** Nothing happens if there is none. */
  endBreak(): void {
    const current = this.#break;
    if (current === undefined) return;
    this.#break = undefined;
    current.timer.cancel();
    attempt(() => ioctl.setBreak(this.#options.guard.fd, false));
    current.done();
  }

  #lookWhilePaused(): void {
    this.#pausedLook = undefined;
    try {
      ioctl.getTermios(this.#options.guard.fd);
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
      if (thrown instanceof LinesideError) throw thrown;
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
      () => ioctl.setTermios(guard.fd, guard.former),
    );
    const bound = await bind(port);
    undo.push(() => bound.close());
    const effective = configure(port, settings, guard);
    const reader = openReader(bound.fd);
    undo.push(() => reader.stream.destroy());
    await claimExclusive(port, guard.fd);
    return new TtyDevice({ port, effective, guard, bound, reader, clock: systemClock });
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

/** serialport's part of an open port. */
async function bind(port: PortToOpen) {
  // The lock is the guard's. HUPCL would drop DTR at the close.
  const options = { path: port.devicePath, baudRate: BINDING_BAUD, lock: false, hupcl: false };
  const bound = await SerialPort.binding.open(options);
  if (!('fd' in bound) || typeof bound.fd !== 'number')
    throw new LinesideError('INTERNAL', 'serialport gave no descriptor');
  return { fd: bound.fd, close: (): Promise<void> => bound.close() };
}

function configure(port: PortToOpen, settings: LineSettings, guard: PortGuard): EffectiveSettings {
  const effective = apply(port, settings, guard.fd, guard.former);
  // What came in while the line had serialport's settings was sampled at the wrong rate.
  ioctl.discard(guard.fd, 'input');
  try {
    ioctl.setLowLatency(guard.fd);
  } catch {
    // Only a wish: most drivers know nothing of it, and a PTY neither.
  }
  return effective;
}

/** Sets and reads back. Throws SETTING_REFUSED. */
function apply(port: PortToOpen, settings: LineSettings, fd: number, former: Termios, marks = false) {
  try {
    ioctl.setTermios(fd, withMarks(rawTermios(settings, former), marks));
  } catch (thrown) {
    if (systemCode(thrown) !== 'EINVAL') throw thrown;
    throw new LinesideError('SETTING_REFUSED', `${port.devicePath}: the driver refused the settings`, {
      cause: thrown,
    });
  }
  const { baudRate, dataBits, parity, stopBits, flowControl } = settings;
  const asked = { baudRate, dataBits, parity, stopBits, flowControl };
  if (port.isPty) return { ...asked, unverified: true, driver: port.driver };
  const got = settingsOf(ioctl.getTermios(fd), hasOnePointFive(port.driver));
  const fault = settingNotTaken(asked, got);
  if (fault !== undefined) throw new LinesideError('SETTING_REFUSED', `${port.devicePath}: ${fault}`);
  return { ...got, unverified: false, driver: port.driver };
}

/** Reads nothing before its stream is resumed, nor while that is paused. */
interface Reader {
  readonly stream: ReadStream;
  /** With an array that is the receiver's to keep. */
  onBytes: (bytes: Uint8Array) => void;
}

/**
 * Reads into one buffer, of which the bytes are copied: without it Node allocates 64 KiB for each read, and reads on into its
 * stream's buffer while that is paused.
 *
 * A tty.ReadStream on a descriptor of its own. libuv reopens the tty and puts the new file in place of the descriptor
 * it was given as well; where it cannot reopen it, it keeps the one it got. Either way the stream owns and closes
 * exactly one, and here none is left over.
 */
function openReader(fd: number): Reader {
  const own = duplicate(fd);
  try {
    const callback = (bytes: number, buffer: Uint8Array): boolean => {
      reader.onBytes(buffer.slice(0, bytes));
      return true;
    };
    const stream = new ReadStream(own, { onread: { buffer: new Uint8Array(CHUNK_BYTES), callback } });
    if (streamDescriptor(stream) !== own) closeSync(own);
    const reader: Reader = { stream, onBytes() {} };
    return reader;
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
