/** What went over the line in the last hours, sampled by the hub and kept in its memory only. */
import { type Clock, pause } from '../../../shared/base/clock.ts';
import { type LineNumbers, statusNumbers } from '../../../shared/proto/line-status.ts';
import type { lineside } from '../../../shared/proto/services.ts';

/** Fine enough to see a device that polls once a minute; a call of a millisecond each. */
const INTERVAL_MS = 10_000;
/** Six hours: a shift, and most of a night's fault. 2,160 samples of six numbers are 0.2 MB. */
const MAX_SAMPLES = (6 * 3_600_000) / INTERVAL_MS;

/** What is counted up; an interval's share is the difference. The service counts since it was started. */
interface Counts {
  readonly rxBytes: number;
  readonly txBytes: number;
  readonly rxDroppedPackets: number;
  readonly failed: number;
}

interface Look extends Counts {
  readonly uptimeMs: number;
  readonly isOpen: boolean;
  readonly portName: string;
  /** Errors as the driver of the port counts them, since it was loaded; undefined: none does. */
  readonly driver: readonly number[] | undefined;
}

interface Sample {
  readonly atMs: number;
  /** rxBytes, txBytes, rxDroppedPackets, errors, portOpen. */
  readonly figures: readonly number[];
}

/** As the HTTP interface has it: age in seconds, then the figures; oldest first. */
export interface HistoryJson {
  readonly intervalS: number;
  readonly samples: readonly (readonly number[])[];
}

export interface LineHistoryOptions {
  /** Rejects where the line does not answer. */
  readonly status: (signal: AbortSignal) => Promise<lineside.v1.LineStatus>;
  readonly clock: Clock;
}

export class LineHistory {
  readonly #o: LineHistoryOptions;
  readonly #stopping = new AbortController();
  readonly #running: Promise<void>;
  readonly #samples: Sample[] = [];
  #before: Look | undefined;

  constructor(options: LineHistoryOptions) {
    this.#o = options;
    this.#running = this.#run();
  }

  samples(): HistoryJson {
    const nowMs = this.#o.clock.monoMs();
    const samples = this.#samples.map(({ atMs, figures }) => [Math.round((nowMs - atMs) / 1_000), ...figures]);
    return { intervalS: INTERVAL_MS / 1_000, samples };
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { clock } = this.#o;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      await this.#look();
      await pause(clock, INTERVAL_MS, signal);
    }
  }

  /** Where it does not answer there is no sample, and no interval that would end with the next one. */
  async #look(): Promise<void> {
    let now: Look;
    try {
      now = lookOf(statusNumbers(await this.#o.status(this.#stopping.signal)));
    } catch {
      this.#before = undefined;
      return;
    }
    if (this.#before !== undefined) {
      this.#samples.push({ atMs: this.#o.clock.monoMs(), figures: figuresOf(this.#before, now) });
      if (this.#samples.length > MAX_SAMPLES) this.#samples.shift();
    }
    this.#before = now;
  }
}

function lookOf({ counters, kernel, uptimeMs, portState, currentPortName }: LineNumbers): Look {
  return {
    uptimeMs,
    isOpen: portState === 'open',
    rxBytes: counters.rxBytes,
    txBytes: counters.txBytes,
    rxDroppedPackets: counters.rxDroppedPackets,
    failed: counters.txFailedPackets,
    portName: currentPortName,
    driver: kernel ? [kernel.frame, kernel.overrun, kernel.parity, kernel.bufOverrun] : undefined,
  };
}

function figuresOf(before: Look, now: Look): readonly number[] {
  const restarted = now.uptimeMs < before.uptimeMs;
  const since = (name: keyof Counts): number => {
    return restarted ? now[name] : increase(before[name], now[name]);
  };
  const errors = since('failed') + driverErrors(before, now);
  return [since('rxBytes'), since('txBytes'), since('rxDroppedPackets'), errors, Number(now.isOpen)];
}

/** None where the port was opened meanwhile: its driver may have counted for months. */
function driverErrors(before: Look, now: Look): number {
  if (before.portName !== now.portName) return 0;
  return (now.driver ?? []).reduce((sum, count, at) => sum + increase(before.driver?.[at] ?? count, count), 0);
}

/** The driver's counts begin again when the adapter is plugged in again. */
function increase(before: number, now: number): number {
  return now < before ? now : now - before;
}
