/** Faults of a batch or an id: its sizes before it is decoded, its fields afterwards; the fault names the field. Pure. */
import Long from 'long';
import { Reader } from 'protobufjs/minimal.js';
import { lineside, serial } from '../shared/proto/services.ts';
import { MAX_BOOT_ID_CHARS, MAX_CORRECTIONS, MAX_ENTRIES, MAX_GAPS, MAX_ID_CHARS, MAX_REASON_CHARS } from './limits.ts';

type Batch = lineside.v1.UpstreamBatch;

/** The only one there is: a reader that finds a number it does not know must not guess. */
const SCHEMA_VERSION = 1;
const { Cause } = lineside.v1.UpstreamGap;
const { EntryClock } = lineside.v1;
const { Direction } = serial.SerialLogEntry;

/** The fault of a device_id or log_id; '': none. */
export function idFault(name: string, id: string): string {
  if (id === '') return `${name}: is empty`;
  if (id.length > MAX_ID_CHARS) return `${name}: has ${id.length} characters; at most ${MAX_ID_CHARS}`;
  // U+FFFD is what stands for bytes that were no UTF-8: two such ids would be one.
  return /[\p{Cc}\p{Cs}\uFFFD]/u.test(id) ? `${name}: holds control characters, or is not UTF-8` : '';
}

/** '': nothing is. */
export function batchFault(batch: Batch): string {
  if (batch.schemaVersion !== SCHEMA_VERSION) {
    return `schema_version: is ${batch.schemaVersion}; this collector knows ${SCHEMA_VERSION}`;
  }
  const id = idFault('device_id', batch.deviceId) || idFault('log_id', batch.logId);
  if (id !== '') return id;
  if (batch.bootId.length > MAX_BOOT_ID_CHARS) {
    return `boot_id: has ${batch.bootId.length} characters; at most ${MAX_BOOT_ID_CHARS}`;
  }
  if (batch.afterId.greaterThan(batch.throughId)) {
    return `after_id: ${String(batch.afterId)} is above through_id ${String(batch.throughId)}`;
  }
  return entriesFault(batch) || gapsFault(batch) || correctionsFault(batch);
}

function entriesFault({ entries, afterId, throughId }: Batch): string {
  let before: Long = afterId;
  for (const [at, { id, entry, clock }] of entries.entries()) {
    const name = `entries[${at}]`;
    if (entry == null) return `${name}.entry: is missing`;
    if (!id.greaterThan(before)) {
      return `${name}.id: ${String(id)} is not above ${at === 0 ? 'after_id' : 'the id before it,'} ${String(before)}`;
    }
    if (Direction[entry.dir] === undefined) return `${name}.entry.dir: ${entry.dir} is no direction`;
    if (EntryClock[clock] === undefined) return `${name}.clock: ${clock} is none of EntryClock`;
    before = id;
  }
  return before.greaterThan(throughId)
    ? `entries[${entries.length - 1}].id: ${String(before)} is above through_id ${String(throughId)}`
    : '';
}

/** The entries are in order by now. */
function gapsFault({ gaps, entries, afterId, throughId }: Batch): string {
  let before: Long = afterId;
  let next = 0;
  for (const [at, gap] of gaps.entries()) {
    const name = `gaps[${at}]`;
    const { firstId, lastId } = gap;
    if (Cause[gap.cause] === undefined || gap.cause === Cause.CAUSE_UNSPECIFIED)
      return `${name}.cause: is not given, or not known`;
    if (gap.openEnded && gap.cause !== Cause.LOG_REPLACED) return `${name}.open_ended: only with LOG_REPLACED`;
    if (!firstId.greaterThan(before)) {
      return `${name}.first_id: ${String(firstId)} is not above ${at === 0 ? 'after_id' : 'the last_id before it,'} ${String(before)}`;
    }
    // Nothing may be known of what was lost but that there was something.
    const least = gap.openEnded ? firstId.subtract(1) : firstId;
    if (lastId.lessThan(least)) return `${name}.last_id: ${String(lastId)} is below first_id ${String(firstId)}`;
    if (lastId.greaterThan(throughId))
      return `${name}.last_id: ${String(lastId)} is above through_id ${String(throughId)}`;
    if (gap.reason.length > MAX_REASON_CHARS) {
      return `${name}.reason: has ${gap.reason.length} characters; at most ${MAX_REASON_CHARS}`;
    }
    while (entries[next]?.id.lessThan(firstId) === true) next += 1;
    const entry = entries[next];
    if (entry !== undefined && !entry.id.greaterThan(lastId)) {
      return `${name}: from ${String(firstId)} to ${String(lastId)}, and entries[${next}].id ${String(entry.id)} lies in it`;
    }
    before = lastId;
  }
  return '';
}

function correctionsFault({ clockCorrections, throughId }: Batch): string {
  for (const [at, { firstId, lastId }] of clockCorrections.entries()) {
    const name = `clock_corrections[${at}]`;
    if (firstId.isZero()) return `${name}.first_id: is 0; ids begin at 1`;
    if (lastId.lessThan(firstId)) return `${name}.last_id: ${String(lastId)} is below first_id ${String(firstId)}`;
    if (lastId.greaterThan(throughId))
      return `${name}.last_id: ${String(lastId)} is above through_id ${String(throughId)}`;
  }
  return '';
}

// Before its parts become objects.

/** Numbers of fields of UpstreamBatch, as in proto/lineside.proto. */
const THROUGH_ID = 6;
const GAPS = 8;
const CORRECTIONS = 9;
/** Far above what any later version will have. */
const MAX_FIELDS = 256;

const parts = [
  { field: 7, name: 'entries', limit: MAX_ENTRIES },
  { field: GAPS, name: 'gaps', limit: MAX_GAPS },
  { field: CORRECTIONS, name: 'clock_corrections', limit: MAX_CORRECTIONS },
] as const;

/** The fault of the sizes; '': none. Throws if the bytes are no message at all. */
export function sizeFault(encoded: Uint8Array): string {
  const counts = new Map<number, number>();
  const reader = Reader.create(encoded);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    const field = tag >>> 3;
    counts.set(field, (counts.get(field) ?? 0) + 1);
    reader.skipType(tag & 7);
    if (counts.size > MAX_FIELDS) return 'the batch has fields without end';
  }
  for (const { field, name, limit } of parts) {
    const count = counts.get(field) ?? 0;
    if (count > limit) return `${name}: ${count} of them; at most ${limit} in a batch`;
  }
  return '';
}

/** Of a batch that was checked before: much cheaper than to decode it. */
export function glance(encoded: Uint8Array): { readonly throughId: Long; readonly mayHaveExtras: boolean } {
  let throughId = Long.UZERO;
  let mayHaveExtras = false;
  const reader = Reader.create(encoded);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    const field = tag >>> 3;
    if (field === GAPS || field === CORRECTIONS) mayHaveExtras = true;
    if (field === THROUGH_ID) throughId = Long.fromValue(reader.uint64());
    else reader.skipType(tag & 7);
  }
  return { throughId, mayHaveExtras };
}
