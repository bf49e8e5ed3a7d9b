/**
 * The SQL of the index by time. Stamps do not follow the order of the log: clocks step, callers give times of their own. So
 * a row says between which stamps the entries of some blocks lie, and a search passes over the rows that cannot hold a match:
 * 50,000 for three million blocks. A row is written with every 64th commit or so, which costs the card next to nothing.
 */
import type { Sql } from '../../../shared/storage/open.ts';
import type { Uint64 } from '../entry.ts';
import { type Columns, givenTime } from '../packed.ts';

/** What one row stands for: so much is read where a row matches and none of its entries does (about 1 ms). */
const rangeBlocks = 64;
export const rangeBytes = 2 * 1024 * 1024;
/** Later stamps count as this one: above it a number is not exact. Bounds are inclusive, so a search only reads too much. */
const latestMs = Number.MAX_SAFE_INTEGER;
const two32 = 2 ** 32;

/** Inclusive, in milliseconds. */
interface TimeBounds {
  readonly sinceMs: number;
  readonly untilMs: number;
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
      span.add(Math.min(latestMs, (highs[i] ?? 0) * two32 + (lows[i] ?? 0)));
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

export class TimeRangeTable {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  /** Entries up to this one are in a row. */
  get lastId(): number {
    const last = this.#sql<[], number>('SELECT last_id FROM time_ranges ORDER BY first_id DESC LIMIT 1');
    return last.pluck().get() ?? 0;
  }

  put({ firstId, lastId, own, given }: TimeRange): void {
    this.#sql<(number | null)[]>(
      `INSERT OR REPLACE INTO time_ranges (first_id, last_id, own_min_ms, own_max_ms, given_min_ms, given_max_ms)
       VALUES (?, ?, ?, ?, ?, ?)`,
    ).run(firstId, lastId, ...own.row, ...given.row);
  }

  /** The first of the ids `from` to `to` where a match may lie; `correctionMs` is to be added to this box's own stamps. */
  first(from: number, to: number, { sinceMs, untilMs }: TimeBounds, correctionMs: number): number | undefined {
    // A corrected stamp is never below zero.
    const ownSince = sinceMs === 0 ? Number.NEGATIVE_INFINITY : sinceMs - correctionMs;
    const search = { from, to, ownSince, ownUntil: untilMs - correctionMs, since: sinceMs, until: untilMs };
    const first = this.#sql<typeof search, number>(
      `SELECT first_id FROM time_ranges
       WHERE first_id >= coalesce((SELECT max(first_id) FROM time_ranges WHERE first_id <= :from), 0)
         AND first_id <= :to AND last_id >= :from
         AND (own_max_ms >= :ownSince AND own_min_ms <= :ownUntil OR given_max_ms >= :since AND given_min_ms <= :until)
       ORDER BY first_id LIMIT 1`,
    );
    const found = first.pluck().get(search);
    return found === undefined ? undefined : Math.max(found, from);
  }

  dropBefore(id: number): void {
    this.#sql<[number]>(
      'DELETE FROM time_ranges WHERE first_id < (SELECT max(first_id) FROM time_ranges WHERE first_id <= ?)',
    ).run(id);
  }
}
