/** Beyond the contract: lineside.v1.LineService. */

import Long from 'long';
import type { CallContext, ServiceImplementation } from 'nice-grpc';
import { residentBytes } from '../../shared/base/memory.ts';
import { lineside, serial } from '../../shared/proto/services.ts';
import type { LogSnapshot, TimeState } from '../log/face.ts';
import type { LineSnapshot, LineState } from '../port/face.ts';
import { callerOf } from './auth-interceptor.ts';
import { readBatches } from './batches.ts';
import { u64 } from './encode.ts';
import { readRequest } from './read-request.ts';
import { type ServiceParts, standing } from './serial-service.ts';
import { Session } from './session.ts';
import type { LineServer } from './wire.ts';

export function lineService(
  parts: ServiceParts,
  version: string,
  configurationRefused = (): string => '',
): ServiceImplementation<typeof LineServer> {
  const { line, log, clock, errorMapper } = parts;
  const startedMs = clock.monoMs();
  let sessions = 0;
  return {
    async getStatus() {
      try {
        return lineStatus(line.snapshot(), await log.status(), {
          uptimeMs: clock.monoMs() - startedMs,
          version,
          residentBytes: residentBytes(),
          subscribers: log.readers,
          configurationRefused: configurationRefused(),
        });
      } catch (error) {
        throw errorMapper.asStatus(error);
      }
    },

    readLog: (request: lineside.v1.ReadLogRequest, context: CallContext) => readLog(parts, request, context),

    async getModemLines() {
      try {
        return line.modemLines();
      } catch (error) {
        throw errorMapper.asStatus(error);
      }
    },

    async setModemLines(request: lineside.v1.SetModemLinesRequest) {
      try {
        // `optional` fields that were not sent are null in the generated class.
        const { dtr, rts } = request;
        return line.setModemLines({
          ...(typeof dtr === 'boolean' && { dtr }),
          ...(typeof rts === 'boolean' && { rts }),
        });
      } catch (error) {
        throw errorMapper.asStatus(error);
      }
    },

    async sendBreak({ durationMs }: lineside.v1.SendBreakRequest) {
      try {
        await line.sendBreak(durationMs);
        return {};
      } catch (error) {
        throw errorMapper.asStatus(error);
      }
    },

    session: (requests: AsyncIterable<lineside.v1.SessionRequest>, context: CallContext) => {
      sessions += 1;
      return session(parts, requests, context, `${callerOf(context)}#${sessions}`);
    },
  };
}

async function* readLog(
  { log, subscriptions, errorMapper }: ServiceParts,
  request: lineside.v1.ReadLogRequest,
  context: CallContext,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    const wanted = readRequest(request, log.logId);
    const subscription = subscriptions.open(context.signal);
    try {
      const batches = readBatches(log, wanted, subscription.signal, () => subscriptions.count > 1);
      standing(context, log);
      for await (const batch of batches) yield batch;
      subscription.checkStopping();
    } finally {
      subscription.close();
    }
  } catch (error) {
    throw errorMapper.asStatus(error);
  }
}

async function* session(
  parts: ServiceParts,
  requests: AsyncIterable<lineside.v1.SessionRequest>,
  context: CallContext,
  caller: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  const { log, subscriptions, errorMapper } = parts;
  try {
    const subscription = subscriptions.open(context.signal);
    try {
      standing(context, log);
      for await (const response of new Session(parts, caller, subscription).run(requests)) yield response;
    } finally {
      subscription.close();
    }
  } catch (error) {
    throw errorMapper.asStatus(error);
  }
}

// The state of the line and its log as lineside.v1.LineStatus.

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

interface ServiceFacts {
  readonly uptimeMs: number;
  readonly version: string;
  readonly residentBytes: number;
  readonly subscribers: number;
  readonly configurationRefused: string;
}

function lineStatus(
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
