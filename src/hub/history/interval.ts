/** What the line counted between two answers. Pure. */
import type { LineNumbers } from '../../shared/proto/line-status.ts';

export interface Interval {
  readonly rxBytes: number;
  readonly txBytes: number;
  readonly rxDroppedPackets: number;
  /** Framing, parity, overruns, packets that failed. */
  readonly errors: number;
  /** Times that the port was lost. */
  readonly reconnects: number;
  readonly isOpen: boolean;
}

type Count = 'rxBytes' | 'txBytes' | 'rxDroppedPackets' | 'txFailedPackets' | 'losses';

/** The line's counters start with its process. */
export function intervalOf(before: LineNumbers, now: LineNumbers): Interval {
  const isRestarted = now.uptimeMs < before.uptimeMs;
  const since = (name: Count): number =>
    isRestarted ? now.counters[name] : increase(before.counters[name], now.counters[name]);
  return {
    rxBytes: since('rxBytes'),
    txBytes: since('txBytes'),
    rxDroppedPackets: since('rxDroppedPackets'),
    errors: since('txFailedPackets') + driverErrors(before, now),
    reconnects: since('losses'),
    isOpen: now.portState === 'open',
  };
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
export function increase(before: number, now: number): number {
  return now < before ? now : now - before;
}
