/** What the serial log holds: entries in the order of their ids, and the ranges that could not be stored. */
import type Long from 'long';

/** The numbers of serial.SerialLogEntry.Direction. */
export const TX = 0;
export const RX = 1;
export type Direction = typeof TX | typeof RX;

/** A 64-bit unsigned number: a plain number where it is below 2^53, else a Long. Never a BigInt (protobufjs encodes it as 0). */
export type Uint64 = number | Long;

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
