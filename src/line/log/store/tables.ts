/** The SQL of the small tables beside the blocks: single values, gaps, segments of the clock, the index by time. */
import { randomUUID } from 'node:crypto';
import { type Columns, givenTime } from '../../../shared/base/log-block.ts';
import { type Connection, type Sql, statementsOf } from '../../../shared/storage/open.ts';
import { fromHalves, type LogGap, type Uint64 } from '../entry.ts';
import { type Segment, Segments } from '../segments.ts';
import type { EventsRequest, NewEvent, StoredEvent } from '../store-client.ts';

type NumberKey = 'ceiling_id' | 'clock_ceiling_id' | 'removed_to' | 'ran_ms' | 'lost_entries' | 'lost_bytes';

class Table {
  protected readonly sql: Sql;

  constructor(sql: Sql) {
    this.sql = sql;
  }
}

export class MetaTable extends Table {
  /** '' in a file that was just made. */
  get logId(): string {
    return String(this.#get('log_id') ?? '');
  }

  set logId(value: string) {
    this.#set('log_id', value);
  }

  number(key: NumberKey): number {
    return Number(this.#get(key) ?? 0);
  }

  setNumber(key: NumberKey, value: number): void {
    this.#set(key, value);
  }

  #get(key: string): number | string | undefined {
    return this.sql<[string], number | string>('SELECT value FROM meta WHERE key = ?').pluck().get(key);
  }

  #set(key: string, value: number | string): void {
    this.sql<[string, number | string]>('INSERT OR REPLACE INTO meta VALUES (?, ?)').run(key, value);
  }
}

/**
 * Rows kept of gaps, of segments and of events: a box that loses power ten times a day makes as many gaps in three years, and one that is
 * switched on so often without a network as many segments in a year and a half.
 */
const maxRows = 10_000;

/** With safeIntegers, since times are 64 bits. */
interface GapRow extends Record<'firstId' | 'lastId' | 'entries' | 'bytes' | 'fromMs' | 'toMs', bigint> {
  reason: string;
}

const gapColumns = 'first_id AS firstId, last_id AS lastId, entries, bytes, from_ms AS fromMs, to_ms AS toMs, reason';

export class GapTable extends Table {
  add({ firstId, lastId, entries, bytes, fromMs, toMs, reason }: LogGap): void {
    this.sql<[number, number, number, number, Uint64, Uint64, string]>(
      'INSERT OR REPLACE INTO gaps VALUES (?, ?, ?, ?, ?, ?, ?)',
    ).run(firstId, lastId, entries, bytes, signed(fromMs), signed(toMs), reason);
  }

  /** Ids that were reserved by a run that did not end cleanly. */
  addUnused(firstId: number, lastId: number): void {
    this.add({ firstId, lastId, entries: 0, bytes: 0, fromMs: 0, toMs: 0, reason: '' });
  }

  between(after: number, upTo: number): LogGap[] {
    const where = 'last_id > ? AND first_id <= ? AND entries > 0 ORDER BY first_id';
    return this.#rows<[number, number]>(where).all(after, upTo).map(gapOfRow);
  }

  /** Newest last. */
  latest(count: number): LogGap[] {
    return this.#rows<[number]>('entries > 0 ORDER BY first_id DESC LIMIT ?').all(count).map(gapOfRow).reverse();
  }

  #rows<P extends unknown[]>(where: string) {
    return this.sql<P, GapRow>(`SELECT ${gapColumns} FROM gaps WHERE ${where}`).safeIntegers();
  }

  /** Ids above `after` up to `to` that never held a stored entry, whether it was lost or the id was never used. */
  missing(after: number, to: number): number {
    const missing = this.sql<{ after: number; to: number }, number>(
      `SELECT coalesce(sum(min(last_id, :to) - max(first_id - 1, :after)), 0) FROM gaps
       WHERE last_id > :after AND first_id <= :to`,
    );
    return missing.pluck().get({ after, to }) ?? 0;
  }

  get lastId(): number {
    return this.sql<[], number | null>('SELECT max(last_id) FROM gaps').pluck().get() ?? 0;
  }

  dropSurplus(): void {
    dropOldest(this.sql, 'gaps');
  }
}

/** Keeps the newest maxRows. */
function dropOldest(sql: Sql, table: 'gaps' | 'clock_segments'): void {
  sql<[number]>(
    `DELETE FROM ${table}
     WHERE first_id <= (SELECT first_id FROM ${table} ORDER BY first_id DESC LIMIT 1 OFFSET ?)`,
  ).run(maxRows);
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

type EventRow = Omit<StoredEvent, 'state'> & { readonly state: number };

export class EventTable extends Table {
  add(events: readonly NewEvent[]): void {
    const add = this.sql<(number | string)[]>(
      `INSERT INTO line_events (after_id, kind, by_whom, detail, at_ms, state, boot_id, offset_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
    );
    for (const { afterId, kind, by, detail, atMs, state, bootId, offsetMs } of events)
      add.run(afterId, kind, by, detail, atMs, states.indexOf(state), bootId, offsetMs);
    if (events.length > 0)
      this.sql<[number]>('DELETE FROM line_events WHERE id <= (SELECT max(id) FROM line_events) - ?').run(maxRows);
  }

  before({ beforeId, limit }: EventsRequest): StoredEvent[] {
    const rows = this.sql<[number, number], EventRow>(
      `SELECT id, after_id AS afterId, kind, by_whom AS by, detail, at_ms AS atMs, state, boot_id AS bootId, offset_ms AS offsetMs
       FROM line_events WHERE id < ? ORDER BY id DESC LIMIT ?`,
    ).all(beforeId, limit);
    return rows.reverse().map((row) => ({ ...row, state: states[row.state] ?? 'unmarked' }));
  }
}

const states = ['unsynced', 'synced', 'unknown', 'unmarked'] as const;

interface SegmentRow extends Omit<Segment, 'state' | 'correctionMs'> {
  readonly state: number;
  readonly correctionMs: number | null;
}

export class SegmentTable extends Table {
  readonly segments = new Segments();

  constructor(sql: Sql) {
    super(sql);
    const all = sql<[], SegmentRow>(
      `SELECT first_id AS firstId, state, boot_id AS bootId, offset_ms AS offsetMs, correction_ms AS correctionMs
       FROM clock_segments ORDER BY first_id`,
    ).all();
    const segments = all.map(({ correctionMs, ...row }) => {
      return { ...row, state: states[row.state] ?? 'unmarked', correctionMs: correctionMs ?? undefined };
    });
    this.segments.replaceAll(segments);
  }

  /** In the order of their ids. Readers see them at once, the file when the caller's transaction is committed. */
  put(segments: readonly Segment[]): void {
    const put = this.sql<[number, number, string, number, number | null]>(
      'INSERT OR REPLACE INTO clock_segments VALUES (?, ?, ?, ?, ?)',
    );
    for (const segment of segments) {
      const { firstId, state, bootId, offsetMs, correctionMs } = segment;
      put.run(firstId, states.indexOf(state), bootId, offsetMs, correctionMs ?? null);
      this.segments.put(segment);
    }
  }

  dropBefore(id: number): void {
    if ((this.segments.all[1]?.firstId ?? Number.POSITIVE_INFINITY) > id) return;
    this.sql<[number]>(
      `DELETE FROM clock_segments
       WHERE first_id < (SELECT max(first_id) FROM clock_segments WHERE first_id <= ?)`,
    ).run(id);
    this.segments.dropBefore(id);
  }

  dropSurplus(): void {
    if (this.segments.all.length <= maxRows) return;
    dropOldest(this.sql, 'clock_segments');
    this.segments.replaceAll(this.segments.all.slice(-maxRows));
  }
}

/** A log that resumes from an earlier state hands out ids again: readers have to know it as another log than before. */
export function renewLogIdentity(connection: Connection): void {
  const meta = new MetaTable(statementsOf(connection));
  // Nothing to do in a log that was never opened for writing.
  if (meta.logId !== '') meta.logId = randomUUID();
}

// The index by time. Stamps do not follow the order of the log: clocks step, callers give times of their own. So a row holds
// the bounds of the stamps of some blocks, and a search skips the rows that cannot hold a match: 50,000 for three million
// blocks. A row is written with about every 64th commit, which costs the card next to nothing.

/** Blocks of one row: so much is read if a row matches and none of its entries does (about 1 ms). */
const rangeBlocks = 64;
export const rangeBytes = 2 * 1024 * 1024;
/** Later stamps count as this one: above it a number is not exact. Bounds are inclusive, so a search only reads too much. */
const latestMs = Number.MAX_SAFE_INTEGER;

/** Inclusive, in milliseconds. */
interface TimeBounds {
  readonly sinceMs: number;
  readonly untilMs: number;
}

/** Entries with consecutive ids. */
export interface IdRange {
  readonly firstId: number;
  readonly lastId: number;
}

export function boundsOf(since: Uint64 | undefined, until: Uint64 | undefined): TimeBounds {
  return { sinceMs: Math.min(latestMs, Number(since ?? 0)), untilMs: Math.min(latestMs, Number(until ?? latestMs)) };
}

/** The entries of blocks that follow each other, until they are worth a row. */
export class TimeRange {
  firstId = 0;
  lastId = 0;
  readonly own = new Span();
  readonly given = new Span();
  #blocks = 0;
  #bytes = 0;

  get isFull(): boolean {
    return this.#blocks >= rangeBlocks || this.#bytes >= rangeBytes;
  }

  add(firstId: number, { highs, lows, dirs, bytes }: Columns): void {
    if (this.#blocks === 0) this.firstId = firstId;
    this.lastId = firstId + dirs.length - 1;
    this.#blocks++;
    this.#bytes += bytes.length;
    for (let i = 0; i < dirs.length; i++) {
      const span = ((dirs[i] ?? 0) & givenTime) === 0 ? this.own : this.given;
      span.add(Math.min(latestMs, Number(fromHalves(highs[i] ?? 0, lows[i] ?? 0))));
    }
  }
}

class Span {
  minMs = Number.POSITIVE_INFINITY;
  maxMs = Number.NEGATIVE_INFINITY;

  add(ms: number): void {
    if (ms < this.minMs) this.minMs = ms;
    if (ms > this.maxMs) this.maxMs = ms;
  }

  /** As columns; NULL where there is none. */
  get row(): [number | null, number | null] {
    return this.minMs > this.maxMs ? [null, null] : [this.minMs, this.maxMs];
  }
}

export class TimeRangeTable extends Table {
  /** Entries up to this one are in a row. */
  get lastId(): number {
    const last = this.sql<[], number>('SELECT last_id FROM time_ranges ORDER BY first_id DESC LIMIT 1');
    return last.pluck().get() ?? 0;
  }

  put({ firstId, lastId, own, given }: TimeRange): void {
    this.sql<(number | null)[]>(
      `INSERT OR REPLACE INTO time_ranges (first_id, last_id, own_min_ms, own_max_ms, given_min_ms, given_max_ms)
       VALUES (?, ?, ?, ?, ?, ?)`,
    ).run(firstId, lastId, ...own.row, ...given.row);
  }

  /** The first of the ids `from` to `to` where a match may lie; `correctionMs` is to be added to this box's own stamps. */
  first(from: number, to: number, bounds: TimeBounds, correctionMs: number): number | undefined {
    const [first] = this.within(from, to, bounds, correctionMs, 1);
    return first === undefined ? undefined : Math.max(first.firstId, from);
  }

  /** The first `limit` rows of the ids `from` to `to` where a match may lie. */
  within(from: number, to: number, { sinceMs, untilMs }: TimeBounds, correctionMs: number, limit: number): IdRange[] {
    // A corrected stamp is never below zero.
    const ownSince = sinceMs === 0 ? Number.NEGATIVE_INFINITY : sinceMs - correctionMs;
    const search = { from, to, ownSince, ownUntil: untilMs - correctionMs, since: sinceMs, until: untilMs, limit };
    return this.sql<typeof search, IdRange>(
      `SELECT first_id AS firstId, last_id AS lastId FROM time_ranges
       WHERE first_id >= coalesce((SELECT max(first_id) FROM time_ranges WHERE first_id <= :from), 0)
         AND first_id <= :to AND last_id >= :from
         AND (own_max_ms >= :ownSince AND own_min_ms <= :ownUntil OR given_max_ms >= :since AND given_min_ms <= :until)
       ORDER BY first_id LIMIT :limit`,
    ).all(search);
  }

  dropBefore(id: number): void {
    this.sql<[number]>(
      'DELETE FROM time_ranges WHERE first_id < (SELECT max(first_id) FROM time_ranges WHERE first_id <= ?)',
    ).run(id);
  }
}
