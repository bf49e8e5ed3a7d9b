/** Traffic and errors of the line in the last hours, sampled by the hub and kept in memory only. */
import type { Clock } from '../../../shared/base/clock.ts';
import { Loop } from '../../../shared/base/loop.ts';
import { type LineNumbers, statusNumbers } from '../../../shared/proto/line-status.ts';
import type { lineside } from '../../../shared/proto/services.ts';

/** Fine enough to see a device that polls once a minute; a call of a millisecond each. */
const INTERVAL_MS = 10_000;
/** Six hours: a shift, and most of a night's fault. 2,160 samples of six numbers are 0.2 MB. */
const MAX_SAMPLES = (6 * 3_600_000) / INTERVAL_MS;

interface Sample {
  readonly atMs: number;
  /** rxBytes, txBytes, rxDroppedPackets, errors, portOpen. */
  readonly figures: readonly number[];
}

export class LineHistory {
  readonly #status: (signal: AbortSignal) => Promise<lineside.v1.LineStatus>;
  readonly #clock: Clock;
  readonly #loop: Loop;
  readonly #samples: Sample[] = [];
  #before: LineNumbers | undefined;

  /** `status` rejects if the line does not answer. */
  constructor(status: (signal: AbortSignal) => Promise<lineside.v1.LineStatus>, clock: Clock) {
    this.#status = status;
    this.#clock = clock;
    this.#loop = new Loop({ pass: (signal) => this.#sample(signal), clock });
    this.#loop.start();
  }

  /** As the HTTP interface has it: age in seconds, then the figures; oldest first. */
  samples() {
    const nowMs = this.#clock.monoMs();
    const samples = this.#samples.map(({ atMs, figures }) => [Math.round((nowMs - atMs) / 1_000), ...figures]);
    return { intervalS: INTERVAL_MS / 1_000, samples };
  }

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  /** If the line does not answer, there is no sample, and no interval that ends with the next one. */
  async #sample(signal: AbortSignal): Promise<number> {
    const now = await this.#status(signal).then(statusNumbers, () => undefined);
    if (this.#before !== undefined && now !== undefined) {
      this.#samples.push({ atMs: this.#clock.monoMs(), figures: figuresOf(this.#before, now) });
      if (this.#samples.length > MAX_SAMPLES) this.#samples.shift();
    }
    this.#before = now;
    return INTERVAL_MS;
  }
}

type Count = 'rxBytes' | 'txBytes' | 'rxDroppedPackets' | 'txFailedPackets';

/** The line's counters start with its process; an interval has the difference. */
function figuresOf(before: LineNumbers, now: LineNumbers): readonly number[] {
  const restarted = now.uptimeMs < before.uptimeMs;
  const since = (name: Count): number =>
    restarted ? now.counters[name] : increase(before.counters[name], now.counters[name]);
  const errors = since('txFailedPackets') + driverErrors(before, now);
  return [since('rxBytes'), since('txBytes'), since('rxDroppedPackets'), errors, Number(now.portState === 'open')];
}

/** 0 if another port was opened meanwhile: its driver may have counted for months. */
function driverErrors(before: LineNumbers, now: LineNumbers): number {
  const { kernel, currentPortName } = now;
  if (before.currentPortName !== currentPortName || kernel === null) return 0;
  return (['frame', 'overrun', 'parity', 'bufOverrun'] as const)
    .map((name) => increase(before.kernel?.[name] ?? kernel[name], kernel[name]))
    .reduce((sum, count) => sum + count, 0);
}

/** The driver's counters restart when the adapter is plugged in again. */
function increase(before: number, now: number): number {
  return now < before ? now : now - before;
}
