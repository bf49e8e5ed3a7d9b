/** Messages of the service as JSON for scripts: camelCase names, 64-bit numbers exact (a string from 2^53 on). Pure. */
import { shownJson } from '../../shared/base/shown-json.ts';
import { type DataJson, gapJson, type LoggedEntry, type LoggedGap } from '../../shared/log-formats/log-formats.ts';
import {
  entryClocks,
  framing,
  statusJson as lineStatusJson,
  messageJson,
  portStates,
} from '../../shared/proto/line-status.ts';
import { type lineside, serial } from '../../shared/proto/services.ts';
import { plainHex } from './hex.ts';
import { exact } from './numbers.ts';

export interface JsonObject {
  readonly [key: string]: Json;
}
export type Json = string | number | boolean | null | readonly Json[] | JsonObject;

export function jsonLine(value: Json): string {
  return `${shownJson(value)}\n`;
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

export function dataJson(data: Uint8Array, form: DataForm): DataJson {
  if (form === 'hex') return { hex: plainHex(data) };
  return { base64: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64') };
}

/** '': not known. */
export function entryClockName(clock: number): string {
  const name = entryClocks[clock] ?? 'unknown';
  return name === 'unknown' ? '' : name;
}

export function loggedEntry({ id, entry, clock, uncorrectedTimestampMs }: lineside.v1.LogEntry): LoggedEntry {
  return {
    kind: 'entry',
    id: exact(id),
    dir: directionName(entry.dir),
    timestampMs: exact(entry.timestamp),
    clock: entryClocks[clock] ?? 'unknown',
    ...(entryClocks[clock] === 'corrected' && { uncorrectedTimestampMs: exact(uncorrectedTimestampMs) }),
    bytes: entry.rawData,
    note: entry.note,
  };
}

type GapFields = 'firstId' | 'lastId' | 'entries' | 'bytes' | 'fromMs' | 'toMs' | 'reason';

export function loggedGap(gap: Pick<lineside.v1.LogGap, GapFields>): LoggedGap {
  return {
    kind: 'gap',
    firstId: exact(gap.firstId),
    id: exact(gap.lastId),
    entries: exact(gap.entries),
    bytes: exact(gap.bytes),
    fromMs: exact(gap.fromMs),
    toMs: exact(gap.toMs),
    reason: gap.reason,
  };
}

export function portStateName(state: number): string {
  return portStates[state] ?? String(state);
}

export function statusJson(status: lineside.v1.LineStatus, healthy: boolean): { [key: string]: Json } {
  const json = lineStatusJson(status, exact);
  return {
    healthy,
    ...json,
    log: { ...json.log, gaps: (status.log?.gaps ?? []).map((gap) => gapJson(loggedGap(gap))) },
  };
}
