/** Messages of the service as JSON for scripts: camelCase names, 64-bit numbers exact (a string from 2^53 on). Pure. */
import {
  entryClocks,
  framing,
  statusJson as lineStatusJson,
  messageJson,
  portStates,
} from '../../shared/proto/line-status.ts';
import { type lineside, serial } from '../../shared/proto/services.ts';
import { plainHex } from './hex.ts';
import { exact, utcTime } from './numbers.ts';

export interface JsonObject {
  readonly [key: string]: Json;
}
export type Json = string | number | boolean | null | readonly Json[] | JsonObject;

export function jsonLine(value: Json): string {
  return `${shownJson(value)}\n`;
}

/** What could drive a terminal is an escape. It stands inside strings only, so the JSON stays the same. */
export function shownJson(value: unknown, indent = 0): string {
  return JSON.stringify(value, null, indent).replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} \n]/gu, (char) =>
    Array.from({ length: char.length }, (_, at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''),
  );
}

export function deviceJson(device: serial.SerialDevice, open: boolean) {
  return { ...messageJson(serial.SerialDevice, device, exact), open };
}

export function configJson(config: serial.SerialConfig): { [key: string]: Json } {
  return { ...messageJson(serial.SerialConfig, config, exact), ...framing(config) };
}

export function directionName(dir: number): string {
  return dir === 0 ? 'tx' : dir === 1 ? 'rx' : String(dir);
}

export type DataForm = 'hex' | 'base64';

export function dataJson(data: Uint8Array, form: DataForm): { [key: string]: Json } {
  if (form === 'hex') return { hex: plainHex(data) };
  return { base64: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64') };
}

/** '': not known. */
export function entryClockName(clock: number): string {
  const name = entryClocks[clock] ?? 'unknown';
  return name === 'unknown' ? '' : name;
}

export function entryJson({ id, entry, clock, uncorrectedTimestampMs }: lineside.v1.LogEntry, form: DataForm): Json {
  const known = entryClockName(clock);
  return {
    id: exact(id),
    time: utcTime(entry.timestamp),
    timestampMs: exact(entry.timestamp),
    ...(known === '' ? {} : { clock: known }),
    ...(known === 'corrected' ? { uncorrectedTimestampMs: exact(uncorrectedTimestampMs) } : {}),
    dir: directionName(entry.dir),
    ...dataJson(entry.rawData, form),
    ...(entry.note === '' ? {} : { note: entry.note }),
  };
}

type GapFields = 'firstId' | 'lastId' | 'entries' | 'bytes' | 'fromMs' | 'toMs' | 'reason';

export function gapJson(gap: Pick<lineside.v1.LogGap, GapFields>): { [key: string]: Json } {
  return {
    firstId: exact(gap.firstId),
    lastId: exact(gap.lastId),
    entries: exact(gap.entries),
    bytes: exact(gap.bytes),
    from: utcTime(gap.fromMs),
    to: utcTime(gap.toMs),
    reason: gap.reason,
  };
}

export function portStateName(state: number): string {
  return portStates[state] ?? String(state);
}

export function statusJson(status: lineside.v1.LineStatus, healthy: boolean): { [key: string]: Json } {
  const json = lineStatusJson(status, exact);
  return { healthy, ...json, log: { ...json.log, gaps: (status.log?.gaps ?? []).map(gapJson) } };
}
