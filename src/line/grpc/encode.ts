/**
 * Log entries and batches on the wire, written by hand: an entry costs a third of what the generated code takes, and
 * one that goes to many subscribers is encoded once. A test holds both to the generated code.
 */
import Long from 'long';
import { type BlockIndex, plain } from '../../shared/base/log-block.ts';
import { lineside } from '../../shared/proto/services.ts';
import type { EntryClock, LogEntry, LogGap, Stamp, Uint64 } from '../log/entry.ts';
import type { LogRun } from '../log/log-api.ts';

/** Tags of serial.SerialLogEntry (field number << 3 | wire type). */
const DIR = 0x08;
const TIMESTAMP = 0x10;
const RAW_DATA = 0x1a;
const NOTE = 0x22;
/** Tags of lineside.v1.LogBatch and LogEntry. */
const BATCH_ENTRY = 0x0a;
const BATCH_BLOCK = 0x32;
const BLOCK_BODY = 0x22;
/** Two tags and lengths. */
const BLOCK_OVERHEAD = 12;
const ENTRY_ID = 0x08;
const ENTRY_ENTRY = 0x12;
const ENTRY_CLOCK = 0x18;
const ENTRY_UNCORRECTED = 0x20;
const sessionTags = { sent: 0x0a, log: 0x12, received: 0x1a, event: 0x22, done: 0x2a } as const;
/** Tags and numbers of an entry beside its data and note: 2 + 11 + 6 + 6 bytes at most. */
const ENTRY_OVERHEAD = 32;
/** A UTF-16 unit takes at most three bytes of UTF-8. */
const MAX_UTF8_PER_UNIT = 3;

const encoded = new WeakMap<LogEntry, Buffer>();

/** serial.SerialLogEntry; `shared`: kept for the next subscriber. */
export function encodeEntry(entry: LogEntry, shared: boolean): Buffer {
  if (!shared) return write(entry);
  let bytes = encoded.get(entry);
  if (bytes === undefined) {
    bytes = write(entry);
    encoded.set(entry, bytes);
  }
  return bytes;
}

function write({ dir, timestampMs, data, note }: LogEntry): Buffer {
  const out = Buffer.allocUnsafe(data.length + note.length * MAX_UTF8_PER_UNIT + ENTRY_OVERHEAD);
  let at = 0;
  if (dir !== 0) {
    out[at++] = DIR;
    out[at++] = dir;
  }
  if (timestampMs !== 0) {
    out[at++] = TIMESTAMP;
    at = typeof timestampMs === 'number' ? writeVarint(out, at, timestampMs) : writeBigVarint(out, at, timestampMs);
  }
  if (data.length > 0) {
    out[at++] = RAW_DATA;
    at = writeVarint(out, at, data.length);
    out.set(data, at);
    at += data.length;
  }
  if (note !== '') {
    out[at++] = NOTE;
    at = writeVarint(out, at, Buffer.byteLength(note));
    at += out.write(note, at);
  }
  return out.subarray(0, at);
}

/** `value` below 2^53: shifts would cut it to 32 bits. */
function writeVarint(out: Buffer, from: number, value: number): number {
  let at = from;
  let rest = value;
  while (rest >= 0x80) {
    out[at++] = (rest % 0x80) | 0x80;
    rest = Math.floor(rest / 0x80);
  }
  out[at++] = rest;
  return at;
}

function writeBigVarint(out: Buffer, from: number, value: bigint): number {
  let at = from;
  let rest = value;
  while (rest >= 0x80n) {
    out[at++] = Number(rest & 0x7fn) | 0x80;
    rest >>= 7n;
  }
  out[at++] = Number(rest);
  return at;
}

function varintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes += 1;
  return bytes;
}

export const clocks: Readonly<Record<EntryClock, lineside.v1.EntryClock>> = {
  known: lineside.v1.EntryClock.ENTRY_CLOCK_KNOWN,
  notSet: lineside.v1.EntryClock.ENTRY_CLOCK_NOT_SET,
  corrected: lineside.v1.EntryClock.ENTRY_CLOCK_CORRECTED,
};

/** What a LogBatch holds. */
export interface Piece {
  readonly entries: readonly LogEntry[];
  readonly gaps: readonly LogGap[];
  readonly nextAfterId: number;
  /** Of all its entries; '': not known, or there are none. */
  readonly bootId: string;
  /** In place of entries. */
  readonly stored?: LogRun['stored'];
}

/**
 * lineside.v1.LogBatch: its fields may come in any order, so entries go first and the generated code does the rest.
 * `logId`: '' but in the first batch of a stream. `shared`: as in encodeEntry().
 */
export function encodeBatch(piece: Piece, logId: string, shared: boolean): Buffer {
  const { entries, gaps, nextAfterId, bootId, stored } = piece;
  const inner = entries.map((entry) => {
    const bytes = encodeEntry(entry, shared);
    return { entry, bytes, length: batchEntryLength(entry, bytes.length) };
  });
  const rest = lineside.v1.LogBatch.encode({
    ...(gaps.length > 0 && { gaps: gaps.map(gapMessage) }),
    ...(logId !== '' && { logId }),
    ...(nextAfterId !== 0 && { nextAfterId: u64(nextAfterId) }),
    ...(bootId !== '' && { bootId }),
    ...(stored !== undefined && { stampedIn: stored.stamps.map(stampMessage) }),
  }).finish();
  if (stored !== undefined) {
    const { blocks, buffer } = stored.batch;
    const bodies = blocks.flatMap((one) => [blockHead(one), new Uint8Array(buffer, one.offset, one.length)]);
    return Buffer.concat([rest, ...bodies]);
  }
  const size = inner.reduce((sum, { length }) => sum + 1 + varintBytes(length) + length, rest.length);
  const out = Buffer.allocUnsafe(size);
  let at = 0;
  for (const { entry, bytes, length } of inner) {
    const { id, clock, uncorrectedMs } = entry;
    out[at++] = BATCH_ENTRY;
    at = writeVarint(out, at, length);
    out[at++] = ENTRY_ID;
    at = writeVarint(out, at, id);
    out[at++] = ENTRY_ENTRY;
    at = writeVarint(out, at, bytes.length);
    out.set(bytes, at);
    at += bytes.length;
    if (clock !== undefined) {
      out[at++] = ENTRY_CLOCK;
      out[at++] = clocks[clock];
    }
    if (uncorrectedMs !== undefined) {
      out[at++] = ENTRY_UNCORRECTED;
      at = writeVarint(out, at, uncorrectedMs);
    }
  }
  out.set(rest, at);
  return out;
}

function batchEntryLength({ id, clock, uncorrectedMs }: LogEntry, bytes: number): number {
  const marks = (clock === undefined ? 0 : 2) + (uncorrectedMs === undefined ? 0 : 1 + varintBytes(uncorrectedMs));
  return 2 + varintBytes(id) + varintBytes(bytes) + bytes + marks;
}

/** lineside.v1.StoredBlock: its body goes last. The generated code alone copies each body four times. */
function blockHead({ firstId, count, length, stored }: BlockIndex): Buffer {
  const { codec = plain, given = null } = stored ?? {};
  const fields = { firstId: u64(firstId), entries: count, codec, ...(given !== null && { givenTimes: given }) };
  const head = lineside.v1.StoredBlock.encode(fields).finish();
  const out = Buffer.allocUnsafe(head.length + BLOCK_OVERHEAD);
  out[0] = BATCH_BLOCK;
  let at = writeVarint(out, 1, head.length + 1 + varintBytes(length) + length);
  out.set(head, at);
  at += head.length;
  out[at++] = BLOCK_BODY;
  return out.subarray(0, writeVarint(out, at, length));
}

function stampMessage({ firstId, bootId, clock, correctionMs }: Stamp): lineside.v1.StampedIn.$Properties {
  const known = clock !== undefined && { clock: clocks[clock] };
  return { firstId: u64(firstId), bootId, ...known, correctionMs: Long.fromNumber(correctionMs) };
}

function gapMessage(gap: LogGap): lineside.v1.LogGap.$Properties {
  return {
    firstId: u64(gap.firstId),
    lastId: u64(gap.lastId),
    entries: u64(gap.entries),
    bytes: u64(gap.bytes),
    fromMs: u64(gap.fromMs),
    toMs: u64(gap.toMs),
    reason: gap.reason,
  };
}

/** lineside.v1.SessionResponse around an encoded message, or received bytes. */
export function sessionResponse(kind: keyof typeof sessionTags, bytes: Uint8Array): Buffer {
  const out = Buffer.allocUnsafe(1 + varintBytes(bytes.length) + bytes.length);
  out[0] = sessionTags[kind];
  out.set(bytes, writeVarint(out, 1, bytes.length));
  return out;
}

/** As the generated code wants 64-bit numbers. */
export function u64(value: Uint64): Long {
  return typeof value === 'number' ? Long.fromNumber(value, true) : Long.fromBigInt(value, true);
}

/** A plain number if that is exact. */
export function fromU64(value: Long): Uint64 {
  return value.toUnsigned().greaterThan(Number.MAX_SAFE_INTEGER) ? value.toUnsigned().toBigInt() : value.toNumber();
}
