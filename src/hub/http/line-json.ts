/** The line's messages as the JSON of the HTTP interface, and back. Pure. */
import { lineside, serial } from '../../shared/proto/services.ts';

/** By lineside.v1.PortState; what is not known yet is not open. */
const portStates = ['closed', 'closed', 'opening', 'open', 'lost', 'reopening', 'closing'] as const;
/** By serial.Parity. */
export const parities = ['none', 'even', 'odd', 'mark', 'space'] as const;
/** By serial.StopBits. */
export const stopBits = [1, 1.5, 2] as const;
/** By lineside.v1.ClockState. */
export const clockStates = ['unknown', 'set', 'notSet'] as const;
/** By lineside.v1.EntryClock. */
export const entryClocks = ['unknown', 'known', 'notSet', 'corrected'] as const;

/** A 64-bit number of a message. What a caller of LogRaw made of a timestamp may be beyond 2^53, and is rounded. */
interface Whole {
  toNumber(): number;
}

/** What is unset stands as null in a message, which its generated type does not say. */
type MaybeUnset<T> = T | null | undefined;

export interface LineConfig {
  readonly portName: string;
  readonly baudRate: number;
  readonly dataBits: number;
  readonly parity: (typeof parities)[number];
  readonly stopBits: (typeof stopBits)[number];
  readonly packetSize?: number;
}

const parityNumbers: Readonly<Record<LineConfig['parity'], serial.Parity>> = {
  none: serial.Parity.PARITY_NONE,
  even: serial.Parity.PARITY_EVEN,
  odd: serial.Parity.PARITY_ODD,
  mark: serial.Parity.PARITY_MARK,
  space: serial.Parity.PARITY_SPACE,
};
const stopBitsNumbers: Readonly<Record<LineConfig['stopBits'], serial.StopBits>> = {
  1: serial.StopBits.STOPBITS_ONE,
  1.5: serial.StopBits.STOPBITS_ONE_POINT_FIVE,
  2: serial.StopBits.STOPBITS_TWO,
};

export function configMessage(config: LineConfig): serial.SerialConfig.$Properties {
  const { portName, baudRate, dataBits, parity, packetSize = 0 } = config;
  return {
    portName,
    baudRate,
    dataBits,
    parity: parityNumbers[parity],
    stopBits: stopBitsNumbers[config.stopBits],
    packetSize,
  };
}

/** Field by field: what is 0 in a decoded message stands on its prototype, and a spread would leave it out. */
export function statusJson(status: lineside.v1.LineStatus): object {
  return {
    portState: portStates[status.portState] ?? 'closed',
    portError: status.portError,
    portStateAgeMs: number(status.portStateAgeMs),
    requested: configJson(status.requested),
    effective: effectiveJson(status.effective),
    currentPortName: status.currentPortName,
    counters: countersJson(status.counters),
    kernel: kernelJson(status.kernel),
    log: logJson(status.log),
    clock: {
      state: clockStates[status.clock?.state ?? 0] ?? 'unknown',
      correctedByMs: number(status.clock?.correctedByMs),
    },
    uptimeMs: number(status.uptimeMs),
    version: status.version,
    residentBytes: number(status.residentBytes),
    subscribers: status.subscribers,
  };
}

export function gapJson({ firstId, lastId, entries, reason }: lineside.v1.LogGap): object {
  return { firstId: number(firstId), lastId: number(lastId), entries: number(entries), reason };
}

export function number(value: MaybeUnset<Whole>): number {
  return value?.toNumber() ?? 0;
}

function configJson(config: MaybeUnset<serial.SerialConfig>): object | null {
  if (config == null) return null;
  const { portName, baudRate, dataBits, packetSize } = config;
  return { portName, baudRate, dataBits, ...framing(config), packetSize };
}

function effectiveJson(settings: MaybeUnset<lineside.v1.EffectiveSettings>): object | null {
  if (settings == null) return null;
  const { baudRate, dataBits, unverified, driver } = settings;
  return { baudRate, dataBits, ...framing(settings), unverified, driver };
}

function framing(of: { readonly parity: number; readonly stopBits: number }): object {
  return { parity: parities[of.parity] ?? 'none', stopBits: stopBits[of.stopBits] ?? 1 };
}

function countersJson(counted: MaybeUnset<lineside.v1.LineCounters>): object {
  return {
    rxBytes: number(counted?.rxBytes),
    txBytes: number(counted?.txBytes),
    rxChunks: number(counted?.rxChunks),
    txPackets: number(counted?.txPackets),
    rxDroppedPackets: number(counted?.rxDroppedPackets),
    rxDroppedBytes: number(counted?.rxDroppedBytes),
    txFailedPackets: number(counted?.txFailedPackets),
    rxBufferedPackets: number(counted?.rxBufferedPackets),
    rxBufferedBytes: number(counted?.rxBufferedBytes),
    txQueuedPackets: number(counted?.txQueuedPackets),
    txQueuedBytes: number(counted?.txQueuedBytes),
    losses: number(counted?.losses),
    reopens: number(counted?.reopens),
    rxPauses: number(counted?.rxPauses),
  };
}

function kernelJson(counted: MaybeUnset<lineside.v1.KernelCounters>): object | null {
  if (counted == null) return null;
  const { frame, overrun, parity, brk, bufOverrun } = counted;
  return { frame, overrun, parity, brk, bufOverrun };
}

function logJson(said: MaybeUnset<lineside.v1.LogStatus>): object {
  const log = said ?? lineside.v1.LogStatus.create();
  return {
    state: log.state === lineside.v1.LogState.LOG_STATE_OK ? 'ok' : 'failing',
    error: log.error,
    logId: log.logId,
    firstId: number(log.firstId),
    lastId: number(log.lastId),
    headId: number(log.headId),
    usedBytes: number(log.usedBytes),
    fileBytes: number(log.fileBytes),
    maxBytes: number(log.maxBytes),
    pendingEntries: number(log.pendingEntries),
    pendingBytes: number(log.pendingBytes),
    lostEntries: number(log.lostEntries),
    lostBytes: number(log.lostBytes),
    gaps: log.gaps.map(gapJson),
    prunedEntries: number(log.prunedEntries),
    setAside: log.setAside,
    commits: number(log.commits),
  };
}
