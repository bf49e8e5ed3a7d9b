/** Messages as JSON, lineside.v1.LineStatus above all: for the CLI, the HTTP interface, the metrics and the alerts. Pure. */
import Long from 'long';
import { type FieldOf, lineside, type serial } from './services.ts';

/** The values of the enumerations, by number. 'unknown': the service does not know, or is of a later version. */
export const portStates = ['unknown', 'closed', 'opening', 'open', 'lost', 'reopening', 'closing'] as const;
export const logStates = ['unknown', 'ok', 'failing'] as const;
export const clockStates = ['unknown', 'set', 'notSet'] as const;
export const entryClocks = ['unknown', 'known', 'notSet', 'corrected'] as const;
export const eventKinds = [
  'unknown',
  'opened',
  'closed',
  'lost',
  'back',
  'settingsChanged',
  'holdBegun',
  'holdEnded',
] as const;
export const parities = ['none', 'even', 'odd', 'mark', 'space'] as const;
export const stopBits = [1, 1.5, 2] as const;
export const flowControls = ['none', 'rtscts', 'xonxoff'] as const;

/** A message with all its fields, 64-bit numbers as N. null: a message that is not set. */
type Json<T, N> = { readonly [K in FieldOf<T>]-?: JsonField<NonNullable<T[K]>, N> };
type JsonField<T, N> = T extends Long
  ? N
  : T extends readonly (infer E)[]
    ? readonly Json<E, N>[]
    : T extends object
      ? Json<T, N> | null
      : T;

/** Methods that the generated code attaches to a message's class. */
interface Message<M> {
  toObject(message: M, options: { readonly defaults: true }): unknown;
}

/** How an unsigned 64-bit number is written. */
type Write<N> = (value: Long) => N;

export function messageJson<M extends object, N>(type: Message<M>, message: M, write: Write<N>): Json<M, N> {
  return withNumbers(type.toObject(message, { defaults: true }), write) as Json<M, N>;
}

export function statusJson<N>(status: lineside.v1.LineStatus.$Properties, write: Write<N>) {
  const { LineStatus, LineCounters, LogStatus, ClockStatus } = lineside.v1;
  const { portState, requested, effective, requestedFlowControl, ...rest } = messageJson(LineStatus, status, write);
  const counters = messageJson(LineCounters, status.counters ?? {}, write);
  const log = messageJson(LogStatus, status.log ?? {}, write);
  const clock = messageJson(ClockStatus, status.clock ?? {}, write);
  return {
    ...rest,
    portState: portStates[portState] ?? 'unknown',
    requested: requested && { ...requested, ...framing(requested) },
    requestedFlowControl: flowControls[requestedFlowControl] ?? ('unknown' as const),
    effective: effective && {
      ...effective,
      ...framing(effective),
      flowControl: flowControls[effective.flowControl] ?? ('unknown' as const),
    },
    counters,
    log: { ...log, state: logStates[log.state] ?? 'unknown' },
    clock: { state: clockStates[clock.state] ?? 'unknown', correctedByMs: Number(clock.correctedByMs) },
  };
}

export function eventJson<N>(event: lineside.v1.RecordedEvent, write: Write<N>) {
  const { kind, clock, ...rest } = messageJson(lineside.v1.RecordedEvent, event, write);
  return { ...rest, kind: eventKinds[kind] ?? 'unknown', clock: entryClocks[clock] ?? 'unknown' };
}

/** Counters of a box stay far below 2^53. */
export function statusNumbers(status: lineside.v1.LineStatus.$Properties) {
  return statusJson(status, (value) => value.toNumber());
}

export type LineNumbers = ReturnType<typeof statusNumbers>;

export function framing({ parity, stopBits: number }: Pick<serial.SerialConfig, 'parity' | 'stopBits'>) {
  return { parity: parities[parity] ?? ('unknown' as const), stopBits: stopBits[number] ?? 0 };
}

function withNumbers<N>(value: unknown, write: Write<N>): unknown {
  if (Long.isLong(value)) return value.unsigned ? write(value) : value.toNumber();
  if (Array.isArray(value)) return value.map((item) => withNumbers(item, write));
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array) return value;
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, withNumbers(field, write)]));
}
