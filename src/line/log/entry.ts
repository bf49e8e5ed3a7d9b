/** What the serial log holds: entries in the order of their ids, and the ranges that could not be stored. Pure. */

/** The numbers of serial.SerialLogEntry.Direction. */
export const TX = 0;
export const RX = 1;
export type Direction = typeof TX | typeof RX;

/** A 64-bit unsigned number: a plain number where it is below 2^53, else a bigint, which protobufjs would encode as 0 (grpc/encode.ts). */
export type Uint64 = number | bigint;

export interface NewEntry {
  readonly dir: Direction;
  /** Wall clock, milliseconds since the Unix epoch; stamps, never orders. */
  readonly timestampMs: Uint64;
  readonly data: Uint8Array;
  readonly note: string;
  /** The timestamp is the caller's own: no clock of this box vouches for it, and it is never corrected. */
  readonly timeGiven?: true;
}

/**
 * Whether the wall clock was right when the entry was stamped. undefined: not known (the caller gave the time; the
 * box has no time sync to ask; an earlier version wrote it).
 */
export type EntryClock = 'known' | 'notSet' | 'corrected';

export interface LogEntry extends NewEntry {
  /** Strictly increasing from 1, below 2^53, never used twice in one log: the order of the log. */
  readonly id: number;
  readonly clock?: EntryClock | undefined;
  /** The stamp as it was made, where timestampMs is a corrected one. */
  readonly uncorrectedMs?: number | undefined;
}

/** How the entries from an id to the next one's were stamped. */
export interface Stamp {
  readonly firstId: number;
  readonly bootId: string;
  readonly clock: EntryClock | undefined;
  readonly correctionMs: number;
}

/** A range of ids whose entries could not be stored. */
export interface LogGap {
  readonly firstId: number;
  readonly lastId: number;
  readonly entries: number;
  readonly bytes: number;
  readonly fromMs: Uint64;
  readonly toMs: Uint64;
  readonly reason: string;
}

/** The newest gaps, which the status of the log shows. */
export const shownGaps = 16;

const two32 = 2 ** 32;
/** High halves below this make a number below 2^53. */
const safeHigh = 2 ** 21;

/** As in a block: two halves of 32 bits. */
export function highOf(value: Uint64): number {
  return typeof value === 'number' ? Math.floor(value / two32) >>> 0 : Number(value >> 32n);
}

export function lowOf(value: Uint64): number {
  return typeof value === 'number' ? value >>> 0 : Number(value & 0xffff_ffffn);
}

export function fromHalves(high: number, low: number): Uint64 {
  return high < safeHigh ? high * two32 + low : (BigInt(high) << 32n) | BigInt(low);
}

/** What an entry takes in memory beside its bytes: the object, its array and that one's buffer, its places in the queues. */
const entryOverheadBytes = 256;

export function costOf(entry: LogEntry): number {
  return entry.data.length + 2 * entry.note.length + entryOverheadBytes;
}

export function gapOf(entry: LogEntry, reason: string): LogGap {
  return {
    firstId: entry.id,
    lastId: entry.id,
    entries: 1,
    bytes: entry.data.length,
    fromMs: entry.timestampMs,
    toMs: entry.timestampMs,
    reason,
  };
}

/** Adds a lost range to a list in order of ids; ranges that touch become one and keep the first one's reason. */
export function addGap(gaps: LogGap[], added: LogGap): void {
  const at = gaps.findLastIndex(({ firstId }) => firstId <= added.firstId) + 1;
  const before = gaps.slice(Math.max(0, at - 1), at).filter(({ lastId }) => lastId + 1 === added.firstId);
  const after = gaps.slice(at, at + 1).filter(({ firstId }) => added.lastId + 1 === firstId);
  const merged = [...before, added, ...after].reduce(joined);
  gaps.splice(at - before.length, before.length + after.length, merged);
}

function joined(a: LogGap, b: LogGap): LogGap {
  return { ...a, lastId: b.lastId, entries: a.entries + b.entries, bytes: a.bytes + b.bytes, toMs: b.toMs };
}

/** How many of a gap's entries have an id above `after`: its ids are consecutive, one entry each. */
export function lostAfter(gap: LogGap, after: number): number {
  return Math.min(gap.entries, Math.max(0, gap.lastId - after));
}
