/** Beyond the contract: lineside.v1.LineService. */

import Long from 'long';
import type { CallContext, ServiceImplementation } from 'nice-grpc';
import { residentBytes } from '../../shared/base/memory.ts';
import { lineside, serial } from '../../shared/proto/services.ts';
import type { LogSnapshot, TimeState } from '../log/log-api.ts';
import type { LineSnapshot } from '../port/line.ts';
import { callerOf, nameOf, turnOf } from './auth-interceptor.ts';
import { readBatches } from './batches.ts';
import { u64 } from './encode.ts';
import type { Holder } from './line-hold.ts';
import { readRequest } from './log-requests.ts';
import { type ServiceContext, standing } from './serial-service.ts';
import { outgoingLines, portStateOf, Session } from './session.ts';
import { subscribed } from './subscriptions.ts';
import type { LineServer } from './wire.ts';

export function lineService(
  parts: ServiceContext,
  version: string,
  faults: () => Pick<ServiceFacts, 'configurationRefused' | 'listenerFault'>,
): ServiceImplementation<typeof LineServer> {
  const { line, hold, log, clock, errorMapper, subscriptions } = parts;
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
          ...holding(hold.holder()),
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

    setModemLines: (request: lineside.v1.SetModemLinesRequest) =>
      errorMapper.answer(() => {
        hold.check();
        return line.setModemLines(outgoingLines(request));
      }),

    sendBreak: ({ durationMs }: lineside.v1.SendBreakRequest, context: CallContext) =>
      errorMapper.answer(async () => {
        hold.check();
        await line.sendBreak(durationMs, turnOf(context));
        return {};
      }),

    session: (requests: AsyncIterable<lineside.v1.SessionRequest>, context: CallContext) => {
      sessions += 1;
      const caller = { stream: `${callerOf(context)}#${sessions}`, name: nameOf(context) };
      return subscribed(parts, context, (subscription) => {
        standing(context, log);
        return new Session(parts, caller, subscription).run(requests);
      });
    },

    releaseHold: (_request: unknown, context: CallContext) =>
      errorMapper.answer(() => {
        hold.releaseBy(nameOf(context));
        return {};
      }),
  };
}

// The state of the line and its log as lineside.v1.LineStatus.

const { ClockState, EffectiveSettings, LineCounters, LogState, LogStatus } = lineside.v1;

const clockStates: Readonly<Record<TimeState, lineside.v1.ClockState>> = {
  synced: ClockState.CLOCK_STATE_SET,
  unsynced: ClockState.CLOCK_STATE_NOT_SET,
  unknown: ClockState.CLOCK_STATE_UNSPECIFIED,
};

type ServiceFacts = Pick<
  lineside.v1.LineStatus.$Properties,
  'uptimeMs' | 'version' | 'residentBytes' | 'subscribers' | 'holder' | 'configurationRefused' | 'listenerFault'
>;

function lineStatus(
  { state, stateAgeMs, requested, effective, devicePath, error, kernel, counters, portListChanges }: LineSnapshot,
  log: LogSnapshot,
  service: ServiceFacts,
): lineside.v1.LineStatus.$Properties {
  return {
    ...service,
    portState: portStateOf(state),
    ...(requested !== undefined && { requested: serial.SerialConfig.fromObject({ ...requested }) }),
    ...(effective !== undefined && { effective: EffectiveSettings.fromObject({ ...effective }) }),
    portError: error,
    currentPortName: devicePath,
    portStateAgeMs: whole(stateAgeMs),
    counters: LineCounters.fromObject({ ...counters }),
    ...(kernel !== undefined && { kernel }),
    log: LogStatus.fromObject({ ...log, state: LogState[`LOG_STATE_${log.state === 'ok' ? 'OK' : 'FAILING'}`] }),
    portListChanges: u64(portListChanges),
    clock: { state: clockStates[log.time], correctedByMs: Long.fromNumber(log.correctedByMs ?? 0) },
  };
}

function holding(holder: Holder | undefined): Pick<ServiceFacts, 'holder'> {
  if (holder === undefined) return {};
  return { holder: { name: holder.name, sinceMs: u64(holder.sinceMs), ageMs: whole(holder.ageMs) } };
}

/** Monotonic times come with fractions. */
function whole(ms: number): Long {
  return u64(Math.max(0, Math.floor(ms)));
}
