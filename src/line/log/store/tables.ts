/** The SQL of the small tables beside the blocks: single values, gaps, segments of the clock, times that callers gave. */

import { randomUUID } from 'node:crypto';
import type { Connection } from '../../../shared/storage/open.ts';
import type { LogGap, Uint64 } from '../entry.ts';
import { maxBlockEntries } from '../packed.ts';
import { type Segment, Segments } from '../segments.ts';

type NumberKey = 'ceiling_id' | 'clock_ceiling_id' | 'removed_to' | 'ran_ms' | 'lost_entries' | 'lost_bytes';

export class MetaTable {
  readonly #get;
  readonly #set;

  constructor(connection: Connection) {
    this.#get = connection.prepare<[string], number | string>('SELECT value FROM meta WHERE key = ?').pluck();
    this.#set = connection.prepare<[string, number | string]>('INSERT OR REPLACE INTO meta VALUES (?, ?)');
  }

  /** '' in a file that was just made. */
  get logId(): string {
    return String(this.#get.get('log_id') ?? '');
  }

  set logId(value: string) {
    this.#set.run('log_id', value);
  }

  number(key: NumberKey): number {
    return Number(this.#get.get(key) ?? 0);
  }

  setNumber(key: NumberKey, value: number): void {
    this.#set.run(key, value);
  }
}

/**
 * Rows kept of gaps and of segments: a box that loses power ten times a day makes as many gaps in three years, and one that is
 * switched on so often without a network as many segments in a year and a half.
 */
const maxRows = 10_000;

/** With safeIntegers, since times are 64 bits. */
interface GapRow extends Record<'firstId' | 'lastId' | 'entries' | 'bytes' | 'fromMs' | 'toMs', bigint> {
  reason: string;
}

const gapColumns = 'first_id AS firstId, last_id AS lastId, entries, bytes, from_ms AS fromMs, to_ms AS toMs, reason';

export class GapTable {
  readonly #insert;
  readonly #between;
  readonly #latest;
  readonly #missing;
  readonly #last;
  readonly #dropAfter;
  readonly #dropOldest;

  constructor(connection: Connection) {
    this.#insert = connection.prepare<[number, number, number, number, Uint64, Uint64, string]>(
      'INSERT OR REPLACE INTO gaps VALUES (?, ?, ?, ?, ?, ?, ?)',
    );
    this.#between = connection
      .prepare<[number, number], GapRow>(
        `SELECT ${gapColumns} FROM gaps WHERE last_id > ? AND first_id <= ? AND entries > 0 ORDER BY first_id`,
      )
      .safeIntegers();
    this.#latest = connection
      .prepare<[number], GapRow>(`SELECT ${gapColumns} FROM gaps WHERE entries > 0 ORDER BY first_id DESC LIMIT ?`)
      .safeIntegers();
    // Every id of these rows is missing, whether it was lost or never used.
    this.#missing = connection
      .prepare<{ after: number; to: number }, number>(
        `SELECT coalesce(sum(min(last_id, :to) - max(first_id - 1, :after)), 0) FROM gaps
         WHERE last_id > :after AND first_id <= :to`,
      )
      .pluck();
    this.#last = connection.prepare<[], number | null>('SELECT max(last_id) FROM gaps').pluck();
    this.#dropAfter = connection.prepare<[number]>('DELETE FROM gaps WHERE first_id > ?');
    this.#dropOldest = connection.prepare<[number]>(
      `DELETE FROM gaps WHERE first_id <= (SELECT first_id FROM gaps ORDER BY first_id DESC LIMIT 1 OFFSET ?)`,
    );
  }

  add({ firstId, lastId, entries, bytes, fromMs, toMs, reason }: LogGap): void {
    this.#insert.run(firstId, lastId, entries, bytes, signed(fromMs), signed(toMs), reason);
  }

  /** Ids that were reserved by a run that did not end cleanly. */
  addUnused(firstId: number, lastId: number): void {
    this.#insert.run(firstId, lastId, 0, 0, 0, 0, '');
  }

  between(after: number, upTo: number): LogGap[] {
    return this.#between.all(after, upTo).map(gapOfRow);
  }

  /** Newest last. */
  latest(count: number): LogGap[] {
    return this.#latest.all(count).map(gapOfRow).reverse();
  }

  /** Ids above `after` up to `to` that never held a stored entry. */
  missing(after: number, to: number): number {
    return this.#missing.get({ after, to }) ?? 0;
  }

  get lastId(): number {
    return this.#last.get() ?? 0;
  }

  dropAfter(id: number): void {
    this.#dropAfter.run(id);
  }

  dropSurplus(): void {
    this.#dropOldest.run(maxRows);
  }
}

function gapOfRow({ firstId, lastId, entries, bytes, fromMs, toMs, reason }: GapRow): LogGap {
  return {
    firstId: Number(firstId),
    lastId: Number(lastId),
    entries: Number(entries),
    bytes: Number(bytes),
    fromMs: unsigned(fromMs),
    toMs: unsigned(toMs),
    reason,
  };
}

/** The same 64 bits, signed, as SQLite keeps them. */
function signed(value: Uint64): Uint64 {
  return typeof value === 'bigint' ? BigInt.asIntN(64, value) : value;
}

function unsigned(value: bigint): Uint64 {
  return value >= 0n && value <= Number.MAX_SAFE_INTEGER ? Number(value) : BigInt.asUintN(64, value);
}

const states = ['unsynced', 'synced', 'unknown', 'unmarked'] as const;

interface SegmentRow {
  first: number;
  state: number;
  boot: string;
  offset: number;
  correction: number | null;
}

export class SegmentTable {
  readonly #put;
  readonly #dropBefore;
  readonly #dropOldest;
  readonly #segments = new Segments();

  constructor(connection: Connection) {
    this.#put = connection.prepare<[number, number, string, number, number | null]>(
      'INSERT OR REPLACE INTO clock_segments VALUES (?, ?, ?, ?, ?)',
    );
    this.#dropBefore = connection.prepare<[number]>(
      `DELETE FROM clock_segments
       WHERE first_id < (SELECT max(first_id) FROM clock_segments WHERE first_id <= ?)`,
    );
    this.#dropOldest = connection.prepare<[number]>(
      `DELETE FROM clock_segments
       WHERE first_id <= (SELECT first_id FROM clock_segments ORDER BY first_id DESC LIMIT 1 OFFSET ?)`,
    );
    const all = connection.prepare<[], SegmentRow>(
      `SELECT first_id AS first, state, boot_id AS boot, offset_ms AS offset, correction_ms AS correction
       FROM clock_segments ORDER BY first_id`,
    );
    this.#segments.replaceAll(all.all().map(segmentOfRow));
  }

  get all(): readonly Segment[] {
    return this.#segments.all;
  }

  get segments(): Segments {
    return this.#segments;
  }

  /** In the order of their ids. Readers see them at once, the file when the caller's transaction is committed. */
  put(segments: readonly Segment[]): void {
    for (const segment of segments) {
      const { firstId, state, bootId, offsetMs, correctionMs } = segment;
      this.#put.run(firstId, states.indexOf(state), bootId, offsetMs, correctionMs ?? null);
      this.#segments.put(segment);
    }
  }

  dropBefore(id: number): void {
    if ((this.#segments.all[1]?.firstId ?? Number.POSITIVE_INFINITY) > id) return;
    this.#dropBefore.run(id);
    this.#segments.dropBefore(id);
  }

  dropSurplus(): void {
    if (this.#segments.all.length <= maxRows) return;
    this.#dropOldest.run(maxRows);
    this.#segments.replaceAll(this.#segments.all.slice(-maxRows));
  }
}

function segmentOfRow({ first, state, boot, offset, correction }: SegmentRow): Segment {
  return {
    firstId: first,
    state: states[state] ?? 'unmarked',
    bootId: boot,
    offsetMs: offset,
    correctionMs: correction ?? undefined,
  };
}

export class GivenTimesTable {
  readonly #put;
  readonly #of;
  readonly #any;
  readonly #dropAfter;
  readonly #dropUpTo;

  constructor(connection: Connection) {
    this.#put = connection.prepare<[number, Uint8Array]>('INSERT OR REPLACE INTO given_times VALUES (?, ?)');
    this.#of = connection.prepare<[number], Buffer>('SELECT bits FROM given_times WHERE first_id = ?').pluck();
    this.#any = connection
      .prepare<[number, number], number>('SELECT 1 FROM given_times WHERE first_id BETWEEN ? AND ? LIMIT 1')
      .pluck();
    this.#dropAfter = connection.prepare<[number]>('DELETE FROM given_times WHERE first_id > ?');
    this.#dropUpTo = connection.prepare<[number]>('DELETE FROM given_times WHERE first_id <= ?');
  }

  put(firstId: number, bits: Uint8Array): void {
    this.#put.run(firstId, bits);
  }

  /** Asked once for a page: most logs have none at all. */
  anyIn(fromId: number, toId: number): boolean {
    return this.#any.get(Math.max(0, fromId - maxBlockEntries), toId) !== undefined;
  }

  bitsOf(firstId: number): Uint8Array | undefined {
    return this.#of.get(firstId);
  }

  dropAfter(id: number): void {
    this.#dropAfter.run(id);
  }

  dropUpTo(id: number): void {
    this.#dropUpTo.run(id);
  }
}

/** A log that resumes from an earlier state hands out ids again: readers have to know it as another log than before. */
export function renewLogIdentity(connection: Connection): void {
  const meta = new MetaTable(connection);
  // Nothing to do in a log that was never opened for writing.
  if (meta.logId !== '') meta.logId = randomUUID();
}
