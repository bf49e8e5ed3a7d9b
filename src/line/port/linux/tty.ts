/**
 * An open tty. Reading is tty.ReadStream's (it alone reported every unplug), writing TtyWriter's, all else ioctl on
 * the guard's descriptor. Made by tty-open.ts; single-use.
 */
import type { ReadStream } from 'node:tty';
import type { Clock, Timer } from '../../../shared/base/clock.ts';
import { LinesideError, messageOf, systemCode } from '../../../shared/base/errors.ts';
import { writeSome } from '../../../shared/base/libc.ts';
import type { EffectiveSettings, KernelCounters, ModemLines, OutgoingLines } from '../settings.ts';
import { CLOSE_LIMIT_MS, type Device, type DeviceEvents, type PortToOpen, type WriteResult } from './device.ts';
import type { PortGuard } from './port-guard.ts';
import {
  discardBoth,
  getCounters,
  getModemLines,
  getTermios,
  setBreak,
  setExclusive,
  setOutgoingLines,
} from './tty-ioctl.ts';
import { TtyWriter } from './writer.ts';

/** While reading is paused nothing is read that would show an unplug: so often it is looked for. */
const PAUSED_LOOK_MS = 250;

export interface TtyParts {
  readonly port: PortToOpen;
  readonly effective: EffectiveSettings;
  readonly guard: PortGuard;
  readonly bound: { close(): Promise<void> };
  readonly stream: ReadStream;
  readonly clock: Clock;
}

export class TtyDevice implements Device {
  readonly path: string;
  readonly effective: EffectiveSettings;
  readonly #parts: TtyParts;
  readonly #writer: TtyWriter;
  #events: DeviceEvents | undefined;
  #lost: Error | undefined;
  #closed = false;
  #released: Promise<void> | undefined;
  #pausedLook: Timer | undefined;
  #break: { readonly timer: Timer; readonly done: () => void } | undefined;

  constructor(parts: TtyParts) {
    this.path = parts.port.devicePath;
    this.effective = parts.effective;
    this.#parts = parts;
    const write = (data: Uint8Array): number => writeSome(parts.guard.fd, data);
    this.#writer = new TtyWriter({ write, clock: parts.clock, onDead: (cause) => this.#lose(cause) });
    parts.stream.on('error', (cause) => this.#lose(cause));
    parts.stream.on('end', () => this.#lose(new Error('the line hung up')));
    parts.stream.on('close', () => this.#lose(new Error('the line hung up')));
  }

  start(events: DeviceEvents): void {
    this.#events = events;
    if (this.#lost !== undefined) {
      const cause = this.#lost;
      queueMicrotask(() => this.#closed || events.lost(cause));
      return;
    }
    // libuv reads into a fresh array each time: it is the receiver's to keep.
    this.#parts.stream.on('data', (bytes: Uint8Array) => events.data(bytes));
  }

  pauseReading(): void {
    if (this.#released !== undefined) return;
    this.#parts.stream.pause();
    this.#pausedLook ??= this.#parts.clock.timer(PAUSED_LOOK_MS, () => this.#lookWhilePaused());
  }

  resumeReading(): void {
    this.#pausedLook?.cancel();
    this.#pausedLook = undefined;
    if (this.#released === undefined) this.#parts.stream.resume();
  }

  write(data: Uint8Array, signal: AbortSignal, cancel?: AbortSignal): Promise<WriteResult> {
    return this.#writer.write(data, signal, cancel);
  }

  modemLines(): ModemLines {
    return this.#control('modem lines', (fd) => getModemLines(fd));
  }

  setModemLines(lines: OutgoingLines): ModemLines {
    return this.#control('modem lines', (fd) => {
      setOutgoingLines(fd, lines);
      return getModemLines(fd);
    });
  }

  async sendBreak(durationMs: number): Promise<void> {
    // The kernel takes TIOCSBRK on a PTY without a word and does nothing.
    if (this.#parts.port.isPty) throw unsupported(this.path, 'break');
    if (this.#break !== undefined) throw new LinesideError('PORT_IO', `${this.path}: a break is already being sent`);
    this.#control('break', (fd) => setBreak(fd, true));
    await new Promise<void>((done) => {
      this.#break = { done, timer: this.#parts.clock.timer(durationMs, () => this.#endBreak()) };
    });
  }

  kernelCounters(): KernelCounters | undefined {
    if (this.#released !== undefined) return undefined;
    try {
      return getCounters(this.#parts.guard.fd);
    } catch {
      return undefined;
    }
  }

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
    const { guard, bound, stream, clock } = this.#parts;
    this.#pausedLook?.cancel();
    this.#endBreak();
    this.#writer.end(why);
    // Untransmitted bytes would hold the last close for up to 30 s (closing_wait).
    attempt(() => discardBoth(guard.fd));
    attempt(() => setExclusive(guard.fd, false));
    stream.destroy();
    await new Promise<void>((resolve) => {
      const limit = clock.timer(CLOSE_LIMIT_MS, resolve);
      // serialport's descriptor is the last and is closed on a pool thread: if a close waits, it is that one.
      const closing = guard.close().then(() => bound.close());
      void closing
        .catch(() => {})
        .then(() => {
          limit.cancel();
          resolve();
        });
    });
  }

  #endBreak(): void {
    const current = this.#break;
    if (current === undefined) return;
    this.#break = undefined;
    current.timer.cancel();
    attempt(() => setBreak(this.#parts.guard.fd, false));
    current.done();
  }

  #lookWhilePaused(): void {
    this.#pausedLook = undefined;
    try {
      getTermios(this.#parts.guard.fd);
    } catch (thrown) {
      return this.#lose(thrown instanceof Error ? thrown : new Error(messageOf(thrown)));
    }
    this.#pausedLook = this.#parts.clock.timer(PAUSED_LOOK_MS, () => this.#lookWhilePaused());
  }

  #control<T>(what: string, call: (fd: number) => T): T {
    if (this.#released !== undefined) throw new LinesideError('NOT_CONNECTED', `${this.path} is not open any more`);
    try {
      return call(this.#parts.guard.fd);
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
    // The port may be gone already: then there is nothing to undo.
  }
}
