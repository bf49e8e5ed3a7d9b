/** The state of the line and its log as lineside.v1.LineStatus. */
import Long from 'long';
import { lineside, serial } from '../../shared/proto/services.ts';
import type { LogSnapshot, TimeState } from '../log/face.ts';
import type { LineCounters, LineSnapshot, LineState } from '../port/face.ts';
import type { EffectiveSettings, LineConfig, Parity, StopBits } from '../port/settings.ts';
import { gapMessage, u64 } from './encode.ts';

const { ClockState, PortState, LogState } = lineside.v1;

const portStates: Readonly<Record<LineState, lineside.v1.PortState>> = {
  closed: PortState.PORT_STATE_CLOSED,
  opening: PortState.PORT_STATE_OPENING,
  open: PortState.PORT_STATE_OPEN,
  lost: PortState.PORT_STATE_LOST,
  reopening: PortState.PORT_STATE_REOPENING,
  closing: PortState.PORT_STATE_CLOSING,
};

const clockStates: Readonly<Record<TimeState, lineside.v1.ClockState>> = {
  synced: ClockState.CLOCK_STATE_SET,
  unsynced: ClockState.CLOCK_STATE_NOT_SET,
  unknown: ClockState.CLOCK_STATE_UNSPECIFIED,
};

const parities: Readonly<Record<Parity, serial.Parity>> = {
  0: serial.Parity.PARITY_NONE,
  1: serial.Parity.PARITY_EVEN,
  2: serial.Parity.PARITY_ODD,
  3: serial.Parity.PARITY_MARK,
  4: serial.Parity.PARITY_SPACE,
};

const stopBits: Readonly<Record<StopBits, serial.StopBits>> = {
  0: serial.StopBits.STOPBITS_ONE,
  1: serial.StopBits.STOPBITS_ONE_POINT_FIVE,
  2: serial.StopBits.STOPBITS_TWO,
};

export function configMessage(config: LineConfig): serial.SerialConfig.$Properties {
  const { portName, baudRate, dataBits, packetSize } = config;
  return {
    portName,
    baudRate,
    dataBits,
    parity: parities[config.parity],
    stopBits: stopBits[config.stopBits],
    packetSize,
  };
}

function effectiveMessage(settings: EffectiveSettings): lineside.v1.EffectiveSettings.$Properties {
  const { baudRate, dataBits, unverified, driver } = settings;
  return {
    baudRate,
    dataBits,
    parity: parities[settings.parity],
    stopBits: stopBits[settings.stopBits],
    unverified,
    driver,
  };
}

export interface ServiceFacts {
  readonly uptimeMs: number;
  readonly version: string;
  readonly residentBytes: number;
  readonly subscribers: number;
  readonly configurationRefused: string;
}

export function lineStatus(
  snapshot: LineSnapshot,
  log: LogSnapshot,
  service: ServiceFacts,
): lineside.v1.LineStatus.$Properties {
  return {
    portState: portStates[snapshot.state],
    ...(snapshot.requested !== undefined && { requested: configMessage(snapshot.requested) }),
    ...(snapshot.effective !== undefined && { effective: effectiveMessage(snapshot.effective) }),
    portError: snapshot.error,
    currentPortName: snapshot.devicePath,
    portStateAgeMs: whole(snapshot.stateAgeMs),
    counters: counters(snapshot.counters),
    ...(snapshot.kernel !== undefined && { kernel: snapshot.kernel }),
    log: logStatus(log),
    uptimeMs: whole(service.uptimeMs),
    version: service.version,
    residentBytes: u64(service.residentBytes),
    subscribers: service.subscribers,
    configurationRefused: service.configurationRefused,
    clock: { state: clockStates[log.time], correctedByMs: Long.fromNumber(log.correctedByMs ?? 0) },
  };
}

/** Monotonic times come with fractions. */
function whole(ms: number): ReturnType<typeof u64> {
  return u64(Math.max(0, Math.floor(ms)));
}

function counters(counted: LineCounters): lineside.v1.LineCounters.$Properties {
  return {
    rxBytes: u64(counted.rxBytes),
    txBytes: u64(counted.txBytes),
    rxChunks: u64(counted.rxChunks),
    txPackets: u64(counted.txPackets),
    rxDroppedPackets: u64(counted.rxDroppedPackets),
    rxDroppedBytes: u64(counted.rxDroppedBytes),
    txFailedPackets: u64(counted.txFailedPackets),
    rxBufferedPackets: u64(counted.rxBufferedPackets),
    rxBufferedBytes: u64(counted.rxBufferedBytes),
    txQueuedPackets: u64(counted.txQueuedPackets),
    txQueuedBytes: u64(counted.txQueuedBytes),
    losses: u64(counted.losses),
    reopens: u64(counted.reopens),
    rxPauses: u64(counted.rxPauses),
    rxFetchedPackets: u64(counted.rxFetchedPackets),
  };
}

function logStatus(log: LogSnapshot): lineside.v1.LogStatus.$Properties {
  return {
    state: log.state === 'ok' ? LogState.LOG_STATE_OK : LogState.LOG_STATE_FAILING,
    error: log.error,
    logId: log.logId,
    firstId: u64(log.firstId),
    lastId: u64(log.lastId),
    headId: u64(log.headId),
    usedBytes: u64(log.usedBytes),
    fileBytes: u64(log.fileBytes),
    maxBytes: u64(log.maxBytes),
    pendingEntries: u64(log.pendingEntries),
    pendingBytes: u64(log.pendingBytes),
    lostEntries: u64(log.lostEntries),
    lostBytes: u64(log.lostBytes),
    gaps: log.gaps.map(gapMessage),
    prunedEntries: u64(log.prunedEntries),
    setAside: log.setAside,
    commits: u64(log.commits),
    readBudgetUsedBytes: u64(log.readBudgetUsedBytes),
    waitingReaders: u64(log.waitingReaders),
  };
}
