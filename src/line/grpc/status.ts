/** The state of the line and its log as lineside.v1.LineStatus. */
import Long from 'long';
import { lineside, serial } from '../../shared/proto/services.ts';
import type { LogSnapshot, TimeState } from '../log/face.ts';
import type { LineSnapshot, LineState } from '../port/face.ts';
import { u64 } from './encode.ts';

const { ClockState, EffectiveSettings, LineCounters, LogState, LogStatus, PortState } = lineside.v1;
const { SerialConfig } = serial;

const portStates: Readonly<Record<LineState, lineside.v1.PortState>> = {
  closed: PortState.PORT_STATE_CLOSED,
  opening: PortState.PORT_STATE_OPENING,
  open: PortState.PORT_STATE_OPEN,
  lost: PortState.PORT_STATE_LOST,
  reopening: PortState.PORT_STATE_REOPENING,
  closing: PortState.PORT_STATE_CLOSING,
};

const logStates = { ok: LogState.LOG_STATE_OK, failing: LogState.LOG_STATE_FAILING };

const clockStates: Readonly<Record<TimeState, lineside.v1.ClockState>> = {
  synced: ClockState.CLOCK_STATE_SET,
  unsynced: ClockState.CLOCK_STATE_NOT_SET,
  unknown: ClockState.CLOCK_STATE_UNSPECIFIED,
};

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
    ...(snapshot.requested !== undefined && { requested: SerialConfig.fromObject({ ...snapshot.requested }) }),
    ...(snapshot.effective !== undefined && { effective: EffectiveSettings.fromObject({ ...snapshot.effective }) }),
    portError: snapshot.error,
    currentPortName: snapshot.devicePath,
    portStateAgeMs: whole(snapshot.stateAgeMs),
    counters: LineCounters.fromObject({ ...snapshot.counters }),
    ...(snapshot.kernel !== undefined && { kernel: snapshot.kernel }),
    log: LogStatus.fromObject({ ...log, state: logStates[log.state] }),
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
