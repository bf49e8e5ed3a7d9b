/** An open port: its opening, the device, its traffic, and what is done to it beside sending packets. */
import { isDeepStrictEqual } from 'node:util';
import { type Clock, endsWithin } from '../../shared/base/clock.ts';
import { asLinesideError, LinesideError } from '../../shared/base/errors.ts';
import type { Port } from './inventory.ts';
import type { ModemChanges, ModemLines, Turn } from './line.ts';
import {
  changedConfig,
  type EffectiveSettings,
  type LineConfig,
  type OutgoingLines,
  type SettingsChange,
} from './line-config.ts';
import type { Device, openTty } from './linux/tty.ts';
import type { Target } from './state.ts';
import type { Traffic } from './traffic.ts';

/** No driver in use takes this long to open; one that hangs must not hold the caller for ever. */
const OPEN_LIMIT_MS = 10_000;
/** How long a new attempt waits for an abandoned one, which may still hold the same port. */
const ABANDONED_LIMIT_MS = 5_000;

export type OpenDevice = typeof openTty;

export type Outcome =
  | { readonly kind: 'opened'; readonly target: Target; readonly device: Device }
  | { readonly kind: 'openFailed'; readonly error: LinesideError };

/** Gets each outcome, also those of abandoned attempts; resolves when it was handled. */
type Report = (attempt: symbol, outcome: Outcome) => Promise<void>;

/** Opens devices, one at a time, without making the owner wait: each attempt has one outcome, or fails at its limit. */
export class Opener {
  readonly #clock: Clock;
  readonly #openDevice: OpenDevice;
  readonly #report: Report;
  /** undefined: abandoned, or claimed. */
  #current: symbol | undefined;
  #underWay: Promise<void> = Promise.resolve();

  constructor(clock: Clock, openDevice: OpenDevice, report: Report) {
    this.#clock = clock;
    this.#openDevice = openDevice;
    this.#report = report;
  }

  /** `locate` finds the port first. */
  start(target: Target, locate: () => Promise<Port | undefined>): void {
    const attempt = Symbol('attempt');
    this.#current = attempt;
    const limit = this.#clock.timer(OPEN_LIMIT_MS, () => {
      const error = new LinesideError('PORT_IO', `${target.config.portName} did not open within ${OPEN_LIMIT_MS} ms`);
      void this.#report(attempt, { kind: 'openFailed', error });
    });
    this.#underWay = this.#attempt(target, locate, this.#underWay).then((outcome) => {
      limit.cancel();
      return this.#report(attempt, outcome);
    });
  }

  /** True once: for the first outcome of the current attempt. */
  claim(attempt: symbol): boolean {
    if (this.#current !== attempt) return false;
    this.#current = undefined;
    return true;
  }

  abandon(): void {
    this.#current = undefined;
  }

  /** Resolves when no attempt is in flight (abandoned ones included), within a limit. */
  async idle(): Promise<void> {
    await endsWithin(this.#clock, ABANDONED_LIMIT_MS, this.#underWay);
  }

  async #attempt(target: Target, locate: () => Promise<Port | undefined>, before: Promise<void>): Promise<Outcome> {
    try {
      await endsWithin(this.#clock, ABANDONED_LIMIT_MS, before);
      const port = await locate();
      if (port === undefined)
        throw new LinesideError('PORT_NOT_FOUND', `${target.config.portName} is not there`, { hint: 'plug it in' });
      const device = await this.#openDevice(port, target.config);
      return { kind: 'opened', target: { config: target.config, port }, device };
    } catch (error) {
      return { kind: 'openFailed', error: asLinesideError(error) };
    }
  }
}

/** A break of a session that was forgotten: the longest that makes sense on any line is a few hundred milliseconds. */
export const MAX_BREAK_MS = 5_000;

/** Of a USB adapter: every tenth look asks for its lines. */
const USB_LOOKS = 10;

export interface ModemState {
  readonly lines: ModemLines;
  readonly changes: ModemChanges | undefined;
  /** Since the driver was asked for the lines. */
  readonly looks: number;
}

/** Throws and rejects with NOT_CONNECTED, NOT_SENT, WRITE_TIMEOUT, UNSUPPORTED, PORT_IO. */
export class OpenPort {
  readonly device: Device;
  readonly traffic: Traffic;
  readonly #onChanged: (changes: SettingsChange) => void;
  #config: LineConfig;

  constructor(device: Device, traffic: Traffic, config: LineConfig, onChanged: (changes: SettingsChange) => void) {
    this.device = device;
    this.traffic = traffic;
    this.#config = config;
    this.#onChanged = onChanged;
  }

  /** What the last Open asked for, with the settings that were changed in place since. */
  get config(): LineConfig {
    return this.#config;
  }

  /** From now on nothing of others is sent: what waits is refused with the reason, and the packet under way has ended. */
  async takeOver(turn: Turn, reason: LinesideError): Promise<void> {
    this.traffic.refuseOthers(turn.caller, reason);
    await this.traffic.inTurn(turn, async () => {});
  }

  /** In place; what was received before belongs to the chunk before. SETTING_REFUSED: nothing was changed. */
  configure(config: LineConfig, changes: SettingsChange = {}): void {
    this.device.configure(config);
    this.#config = config;
    this.traffic.reconfigured(config);
    this.#onChanged(changes);
  }

  /** After what the caller sent before; `drain`: when that has left the port. Also INVALID_ARGUMENT, SETTING_REFUSED. */
  async changeSettings(turn: Turn, changes: SettingsChange, drain: boolean): Promise<EffectiveSettings> {
    // A bad argument is refused at once.
    changedConfig(this.#config, changes);
    await this.traffic.inTurn(turn, async (signal) => {
      if (drain) await this.device.drained(signal);
      if (!signal.aborted) this.configure(changedConfig(this.#config, changes), changes);
    });
    return this.device.effective;
  }

  /** Resolves when what the caller sent before has left the port. */
  drain(turn: Turn): Promise<void> {
    return this.traffic.inTurn(turn, (signal) => this.device.drained(signal));
  }

  /** After what the caller sent before. */
  async setModemLines(turn: Turn, lines: OutgoingLines): Promise<ModemLines> {
    await this.traffic.inTurn(turn, async () => void this.device.setModemLines(lines));
    return this.device.modemLines();
  }

  /** After what the caller sent before; ends with the device's endBreak(), after MAX_BREAK_MS, or when the port closes. */
  beginBreak(turn: Turn): Promise<void> {
    return this.traffic.inTurn(turn, (signal) => this.device.beginBreak(MAX_BREAK_MS, signal));
  }

  /** After what the caller sent before; nothing is sent meanwhile. */
  sendBreak(turn: Turn, durationMs: number): Promise<void> {
    return this.traffic.inTurn(turn, (signal) => this.device.sendBreak(durationMs, signal), durationMs);
  }

  /**
   * The lines as they are, and how often each of the incoming ones has changed, where the driver counts that. A UART's driver counts
   * with RTS/CTS flow control alone: it is asked each time, which costs microseconds. To ask a USB adapter is a transfer of a
   * millisecond or more, on the thread that reads: when its driver has counted a change, else now and then, as some count nothing.
   */
  modemState(before: ModemState | undefined): ModemState {
    const changes = this.device.modemChanges();
    const looks = (before?.looks ?? 0) + 1;
    const isQuiet = changes !== undefined && isDeepStrictEqual(changes, before?.changes);
    if (before !== undefined && isQuiet && this.device.isUsb && looks < USB_LOOKS) return { ...before, looks };
    return { lines: this.device.modemLines(), changes, looks: 0 };
  }
}
