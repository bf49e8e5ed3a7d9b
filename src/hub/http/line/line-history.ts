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

/** `status` rejects if the line does not answer. */
export function startLineHistory(status: (signal: AbortSignal) => Promise<lineside.v1.LineStatus>, clock: Clock) {
  const kept: Sample[] = [];
  let before: LineNumbers | undefined;
  /** If the line does not answer, there is no sample, and no interval that ends with the next one. */
  const pass = async (signal: AbortSignal): Promise<number> => {
    const now = await status(signal).then(statusNumbers, () => undefined);
    if (before !== undefined && now !== undefined) {
      kept.push({ atMs: clock.monoMs(), figures: figuresOf(before, now) });
      if (kept.length > MAX_SAMPLES) kept.shift();
    }
    before = now;
    return INTERVAL_MS;
  };
  const loop = new Loop({ pass, clock });
  loop.start();
  return {
    /** As the HTTP interface has it: age in seconds, then the figures; oldest first. */
    samples() {
      const nowMs = clock.monoMs();
      const samples = kept.map(({ atMs, figures }) => [Math.round((nowMs - atMs) / 1_000), ...figures]);
      return { intervalS: INTERVAL_MS / 1_000, samples };
    },
    stop: () => loop.stop(),
  };
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
