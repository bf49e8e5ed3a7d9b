/** Beyond the contract: lineside.v1.LineService. */

import Long from 'long';
import type { CallContext, ServiceImplementation } from 'nice-grpc';
import { residentBytes } from '../../shared/base/memory.ts';
import { lineside, serial } from '../../shared/proto/services.ts';
import type { LogSnapshot, TimeState } from '../log/log-api.ts';
import type { LineSnapshot } from '../port/line.ts';
import { callerOf } from './auth-interceptor.ts';
import { readBatches } from './batches.ts';
import { u64 } from './encode.ts';
import { readRequest } from './log-requests.ts';
import { type ServiceContext, standing } from './serial-service.ts';
import { Session } from './session.ts';
import { subscribed } from './subscriptions.ts';
import type { LineServer } from './wire.ts';

export function lineService(
  parts: ServiceContext,
  version: string,
  faults: () => Pick<ServiceFacts, 'configurationRefused' | 'listenerFault'>,
): ServiceImplementation<typeof LineServer> {
  const { line, log, clock, errorMapper, subscriptions } = parts;
  const startedMs = clock.monoMs();
  let sessions = 0;
  return {
    getStatus: () =>
      errorMapper.answer(async () =>
        lineStatus(line.snapshot(), await log.status(), {
          uptimeMs: whole(clock.monoMs() - startedMs),
          version,
          residentBytes: u64(residentBytes()),
          subscribers: log.readers,
          ...faults(),
        }),
      ),

    readLog: (request: lineside.v1.ReadLogRequest, context: CallContext) =>
      subscribed(parts, context, (subscription) => {
        const batches = readBatches(log, readRequest(request, log.logId), subscription, () => subscriptions.count > 1);
        standing(context, log);
        return batches;
      }),

    getModemLines: () => errorMapper.answer(() => line.modemLines()),

    setModemLines: ({ dtr, rts }: lineside.v1.SetModemLinesRequest) =>
      errorMapper.answer(() =>
        // `optional` fields that were not sent are null in the generated class.
        line.setModemLines({ ...(typeof dtr === 'boolean' && { dtr }), ...(typeof rts === 'boolean' && { rts }) }),
      ),

    sendBreak: ({ durationMs }: lineside.v1.SendBreakRequest) =>
      errorMapper.answer(async () => {
        await line.sendBreak(durationMs);
        return {};
      }),

    session: (requests: AsyncIterable<lineside.v1.SessionRequest>, context: CallContext) => {
      sessions += 1;
      const caller = `${callerOf(context)}#${sessions}`;
      return subscribed(parts, context, (subscription) => {
        standing(context, log);
        return new Session(parts, caller, subscription).run(requests);
      });
    },
  };
}

// The state of the line and its log as lineside.v1.LineStatus.

const { ClockState, EffectiveSettings, LineCounters, LogState, LogStatus, PortState } = lineside.v1;

const clockStates: Readonly<Record<TimeState, lineside.v1.ClockState>> = {
  synced: ClockState.CLOCK_STATE_SET,
  unsynced: ClockState.CLOCK_STATE_NOT_SET,
  unknown: ClockState.CLOCK_STATE_UNSPECIFIED,
};

type ServiceFacts = Pick<
  lineside.v1.LineStatus.$Properties,
  'uptimeMs' | 'version' | 'residentBytes' | 'subscribers' | 'configurationRefused' | 'listenerFault'
>;

function lineStatus(
  { state, stateAgeMs, requested, effective, devicePath, error, kernel, counters, portListChanges }: LineSnapshot,
  log: LogSnapshot,
  service: ServiceFacts,
): lineside.v1.LineStatus.$Properties {
  return {
    ...service,
    portState: PortState[`PORT_STATE_${upper(state)}`],
    ...(requested !== undefined && { requested: serial.SerialConfig.fromObject({ ...requested }) }),
    ...(effective !== undefined && { effective: EffectiveSettings.fromObject({ ...effective }) }),
    portError: error,
    currentPortName: devicePath,
    portStateAgeMs: whole(stateAgeMs),
    counters: LineCounters.fromObject({ ...counters }),
    ...(kernel !== undefined && { kernel }),
    log: LogStatus.fromObject({ ...log, state: LogState[`LOG_STATE_${upper(log.state)}`] }),
    portListChanges: u64(portListChanges),
    clock: { state: clockStates[log.time], correctedByMs: Long.fromNumber(log.correctedByMs ?? 0) },
  };
}

function upper<S extends string>(state: S): Uppercase<S> {
  return state.toUpperCase() as Uppercase<S>;
}

/** Monotonic times come with fractions. */
function whole(ms: number): Long {
  return u64(Math.max(0, Math.floor(ms)));
}
