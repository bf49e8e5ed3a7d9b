/** Beyond the contract: lineside.v1.LineService. */

import Long from 'long';
import type { CallContext, ServiceImplementation } from 'nice-grpc';
import { LinesideError } from '../../shared/base/errors.ts';
import { residentBytes } from '../../shared/base/memory.ts';
import { LineServiceDefinition, lineside, serial } from '../../shared/proto/services.ts';
import type { LogSnapshot, RecordedEvent, TimeState } from '../log/log-api.ts';
import type { LineSnapshot } from '../port/line.ts';
import { callerOf, nameOf, turnOf } from './auth-interceptor.ts';
import { clocks, u64 } from './encode.ts';
import { MAX_EVENTS, USUAL_EVENTS } from './limits.ts';
import type { Holder } from './line-hold.ts';
import { histogramRequest, readRequest, searchRequest } from './log-requests.ts';
import { histogramMessage, sendBatches, sendSearch } from './log-streams.ts';
import { encodedResponses, type ServiceContext, standing } from './serial-service.ts';
import { outgoingLines, portStateOf, Session } from './session.ts';
import { subscribed } from './subscriptions.ts';

export const LineServer = {
  ...LineServiceDefinition,
  readLog: encodedResponses(LineServiceDefinition.readLog),
  searchLog: encodedResponses(LineServiceDefinition.searchLog),
  session: encodedResponses(LineServiceDefinition.session),
} as const;

export function lineService(
  parts: ServiceContext,
  version: string,
  faults: () => Pick<ServiceFacts, 'configurationRefused' | 'restartNeeded' | 'listenerFault'>,
): ServiceImplementation<typeof LineServer> {
  const { line, hold, log, clock, errorMapper } = parts;
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
      subscribed(parts, context, (subscription, out) => {
        const sent = sendBatches(log, readRequest(request, log.logId), subscription, out);
        standing(context, log);
        return sent;
      }),

    searchLog: (request: lineside.v1.SearchLogRequest, context: CallContext) =>
      subscribed(parts, context, async (subscription, out) => {
        const wanted = searchRequest(request, log.logId);
        await sendSearch(log.searches.search(wanted, subscription.signal), clock, out, () => standing(context, log));
      }),

    getLogHistogram: (request: lineside.v1.LogHistogramRequest) =>
      errorMapper.answer(async () => histogramMessage(await log.searches.histogram(histogramRequest(request)))),

    listEvents: ({ beforeId, limit }: lineside.v1.ListEventsRequest) =>
      errorMapper.answer(async () => {
        if (limit > MAX_EVENTS) throw new LinesideError('INVALID_ARGUMENT', `limit: ${limit} is above ${MAX_EVENTS}`);
        const before = beforeId.isZero()
          ? Number.MAX_SAFE_INTEGER
          : Math.min(Number.MAX_SAFE_INTEGER, beforeId.toNumber());
        const events = await log.events({ beforeId: before, limit: limit || USUAL_EVENTS });
        return { events: events.map(recordedEvent) };
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

    open: ({ config, flowControl, rxGapMs }: lineside.v1.OpenRequest, context: CallContext) => {
      // Not spread: what was not sent is on its prototype.
      const request = Object.assign(config ?? new serial.SerialConfig(), { flowControl, rxGapMs });
      const opened = (): Promise<void> => line.open(request, nameOf(context), () => hold.check());
      return errorMapper.inContract(opened, context.trailer);
    },

    session: (requests: AsyncIterable<lineside.v1.SessionRequest>, context: CallContext) => {
      sessions += 1;
      const caller = { stream: `${callerOf(context)}#${sessions}`, name: nameOf(context) };
      return subscribed(parts, context, (subscription, out) => {
        standing(context, log);
        return new Session(parts, caller, subscription, out).run(requests);
      });
    },

    releaseHold: (_request: unknown, context: CallContext) =>
      errorMapper.answer(() => {
        hold.releaseBy(nameOf(context));
        return {};
      }),
  };
}

function recordedEvent({
  id,
  afterEntryId,
  timestampMs,
  clock,
  kind,
  by,
  detail,
}: RecordedEvent): lineside.v1.RecordedEvent.$Properties {
  const known = clock !== undefined && { clock: clocks[clock] };
  const numbers = { id: u64(id), afterEntryId: u64(afterEntryId), timestampMs: u64(timestampMs) };
  return { kind, by, detail, ...numbers, ...known };
}

// The state of the line and its log as lineside.v1.LineStatus.

const { ClockState, EffectiveSettings, LineCounters, LogState, LogStatus } = lineside.v1;

const clockStates: Readonly<Record<TimeState, lineside.v1.ClockState>> = {
  synced: ClockState.CLOCK_STATE_SET,
  unsynced: ClockState.CLOCK_STATE_NOT_SET,
  unknown: ClockState.CLOCK_STATE_UNSPECIFIED,
};

const { FLOW_CONTROL_NONE, FLOW_CONTROL_RTS_CTS, FLOW_CONTROL_XON_XOFF } = lineside.v1.FlowControl;
const flowControls = [FLOW_CONTROL_NONE, FLOW_CONTROL_RTS_CTS, FLOW_CONTROL_XON_XOFF] as const;

type ServiceFacts = Pick<
  lineside.v1.LineStatus.$Properties,
  | 'uptimeMs'
  | 'version'
  | 'residentBytes'
  | 'subscribers'
  | 'holder'
  | 'configurationRefused'
  | 'restartNeeded'
  | 'listenerFault'
>;

function lineStatus(
  { state, requested, effective, devicePath, error, kernel, counters, ...line }: LineSnapshot,
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
    portStateAgeMs: whole(line.stateAgeMs),
    receivedAgeMs: whole(line.receivedAgeMs),
    sentAgeMs: whole(line.sentAgeMs),
    counters: LineCounters.fromObject({ ...counters }),
    ...(kernel !== undefined && { kernel }),
    log: LogStatus.fromObject({ ...log, state: LogState[`LOG_STATE_${log.state === 'ok' ? 'OK' : 'FAILING'}`] }),
    portListChanges: u64(line.portListChanges),
    rxGapUs: Math.round(line.rxGapMs * 1_000),
    rxGapAsked: requested?.rxGapMs !== undefined,
    requestedFlowControl: flowControls[requested?.flowControl ?? 0],
    requestedRxGapMs: requested?.rxGapMs ?? 0,
    maxPayloadBytes: line.maxPayloadBytes,
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
