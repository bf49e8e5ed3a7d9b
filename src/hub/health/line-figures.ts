/** The line's answer to GetStatus as plain numbers. Pure. */
import { lineside } from '../../shared/proto/services.ts';
import type { KernelErrors, LineFigures, LogFigures, PortState } from './face.ts';

type Uint64 = { toNumber(): number } | number | null | undefined;

const portStates: Readonly<Record<number, PortState>> = {
  [lineside.v1.PortState.PORT_STATE_CLOSED]: 'closed',
  [lineside.v1.PortState.PORT_STATE_OPENING]: 'opening',
  [lineside.v1.PortState.PORT_STATE_OPEN]: 'open',
  [lineside.v1.PortState.PORT_STATE_LOST]: 'lost',
  [lineside.v1.PortState.PORT_STATE_REOPENING]: 'reopening',
  [lineside.v1.PortState.PORT_STATE_CLOSING]: 'closing',
};

export function lineFigures(status: lineside.v1.LineStatus.$Properties): LineFigures {
  const c = status.counters ?? {};
  return {
    portState: portStates[status.portState ?? 0] ?? 'unknown',
    portError: status.portError ?? '',
    rxBytes: num(c.rxBytes),
    txBytes: num(c.txBytes),
    rxChunks: num(c.rxChunks),
    txPackets: num(c.txPackets),
    rxDroppedPackets: num(c.rxDroppedPackets),
    rxDroppedBytes: num(c.rxDroppedBytes),
    txFailedPackets: num(c.txFailedPackets),
    rxBufferedPackets: num(c.rxBufferedPackets),
    rxBufferedBytes: num(c.rxBufferedBytes),
    txQueuedPackets: num(c.txQueuedPackets),
    txQueuedBytes: num(c.txQueuedBytes),
    losses: num(c.losses),
    reopens: num(c.reopens),
    rxPauses: num(c.rxPauses),
    rxFetchedPackets: num(c.rxFetchedPackets),
    kernel: kernelErrors(status.kernel),
    log: logFigures(status.log ?? {}),
    subscribers: num(status.subscribers),
    residentBytes: num(status.residentBytes),
    uptimeSeconds: num(status.uptimeMs) / 1_000,
    clock: clockOf(status.clock?.state),
    configurationRefused: status.configurationRefused ?? '',
  };
}

function kernelErrors(kernel: lineside.v1.KernelCounters.$Properties | null | undefined): KernelErrors | null {
  if (kernel === null || kernel === undefined) return null;
  const { frame, overrun, parity, brk, bufOverrun } = kernel;
  return {
    frame: num(frame),
    overrun: num(overrun),
    parity: num(parity),
    break: num(brk),
    buffer_overrun: num(bufOverrun),
  };
}

function logFigures(log: lineside.v1.LogStatus.$Properties): LogFigures {
  return {
    failing: log.state === lineside.v1.LogState.LOG_STATE_FAILING,
    error: log.error ?? '',
    firstId: num(log.firstId),
    lastId: num(log.lastId),
    headId: num(log.headId),
    usedBytes: num(log.usedBytes),
    fileBytes: num(log.fileBytes),
    maxBytes: num(log.maxBytes),
    pendingEntries: num(log.pendingEntries),
    pendingBytes: num(log.pendingBytes),
    lostEntries: num(log.lostEntries),
    lostBytes: num(log.lostBytes),
    prunedEntries: num(log.prunedEntries),
    commits: num(log.commits),
    readBudgetUsedBytes: num(log.readBudgetUsedBytes),
    waitingReaders: num(log.waitingReaders),
  };
}

function clockOf(state: lineside.v1.ClockState | undefined): LineFigures['clock'] {
  if (state === lineside.v1.ClockState.CLOCK_STATE_SET) return 'set';
  return state === lineside.v1.ClockState.CLOCK_STATE_NOT_SET ? 'notSet' : 'unknown';
}

/** Counters of a box stay far below 2^53. */
function num(value: Uint64): number {
  if (value === null || value === undefined) return 0;
  return typeof value === 'number' ? value : value.toNumber();
}
