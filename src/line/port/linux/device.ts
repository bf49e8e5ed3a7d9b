/**
 * One opened port. Single-use: it is opened by a factory, and once lost or closed never used again; reconnecting asks
 * the factory for a new one. Real ports and PTYs are TtyDevice (tty.ts).
 */
import type { KernelCounters, ModemLines } from '../line.ts';
import type { EffectiveSettings, LineSettings, OutgoingLines } from '../line-config.ts';

export interface DeviceEvents {
  /** Bytes as the kernel gave them; the array is the receiver's to keep. */
  data(bytes: Uint8Array): void;
  /** The port is gone (unplugged, driver gone, read error). At most once, never after close() was called. */
  lost(cause: Error): void;
}

export interface WriteResult {
  /** Bytes that the kernel accepted: all of them, unless `error` is set. */
  readonly accepted: number;
  /** Why it ended early: write error, the port was lost or closed, or the signal fired. */
  readonly error: Error | undefined;
}

export interface Device {
  /** The device node that is open ("/dev/ttyUSB0"). */
  readonly path: string;
  /** Settings as the kernel has them now. */
  readonly effective: EffectiveSettings;
  /** Starts delivery; called once. Nothing that arrived before is lost. */
  start(events: DeviceEvents): void;
  /** Stops and resumes reading (the kernel buffers, then the line overruns or is held by flow control). */
  pauseReading(): void;
  resumeReading(): void;
  /**
   * Writes in pieces without ever blocking the thread; one call at a time. What fits at once is written before this
   * returns. Never rejects. `signal` ends the write at any time. `cancel` ends it only while the kernel has accepted
   * nothing: a packet cut in two would upset the device behind the line.
   */
  write(data: Uint8Array, signal: AbortSignal, cancel?: AbortSignal): Promise<WriteResult>;
  /** Throws LinesideError UNSUPPORTED where the port has none. */
  modemLines(): ModemLines;
  setModemLines(lines: OutgoingLines): ModemLines;
  /** Resolves when the break has ended. */
  sendBreak(durationMs: number): Promise<void>;
  /** undefined where the driver has none. */
  kernelCounters(): KernelCounters | undefined;
  /** Discards what was not transmitted, ends a write under way, closes. Never rejects, idempotent, ends within CLOSE_LIMIT_MS whatever the line does. */
  close(): Promise<void>;
}

/** A close ends within 2 s whatever the line does; this leaves the rest of the service its share. */
export const CLOSE_LIMIT_MS = 1_500;

/**
 * Opens and configures a port and reads its settings back. Rejects with a LinesideError: PORT_NOT_FOUND, PORT_BUSY,
 * PORT_PERMISSION, PORT_IO, SETTING_REFUSED (the message names the setting, what was asked and what was got).
 * A port that is held by another process keeps its settings.
 */
export type OpenDevice = (port: PortToOpen, settings: LineSettings) => Promise<Device>;

export interface PortToOpen {
  readonly devicePath: string;
  readonly driver: string;
  readonly isPty: boolean;
}
