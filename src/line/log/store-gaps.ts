/** The SQL of the ranges of ids that hold no entry. */
import type { Connection } from '../../shared/storage/open.ts';
import type { StoredGap } from './store-face.ts';

/** Rows kept: a box that loses power ten times a day makes as many in three years. */
const maxRows = 10_000;

interface GapRow {
  first: number;
  last: number;
  entries: number;
  bytes: number;
  fromHigh: number;
  fromLow: number;
  toHigh: number;
  toLow: number;
  reason: string;
}

const columns = `first_id AS first, last_id AS last, entries, bytes,
  (from_ms >> 32) & 4294967295 AS fromHigh, from_ms & 4294967295 AS fromLow,
  (to_ms >> 32) & 4294967295 AS toHigh, to_ms & 4294967295 AS toLow, reason`;

export class GapTable {
  readonly #insert;
  readonly #between;
  readonly #latest;
  readonly #missing;
  readonly #last;
  readonly #dropAfter;
  readonly #dropOldest;

  constructor(connection: Connection) {
    this.#insert = connection.prepare<[number, number, number, number, bigint, bigint, string]>(
      'INSERT OR REPLACE INTO gaps VALUES (?, ?, ?, ?, ?, ?, ?)',
    );
    this.#between = connection.prepare<[number, number], GapRow>(
      `SELECT ${columns} FROM gaps WHERE last_id > ? AND first_id <= ? AND entries > 0 ORDER BY first_id`,
    );
    this.#latest = connection.prepare<[number], GapRow>(
      `SELECT ${columns} FROM gaps WHERE entries > 0 ORDER BY first_id DESC LIMIT ?`,
    );
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

  add(gap: StoredGap): void {
    const { firstId, lastId, entries, bytes, from, to, reason } = gap;
    this.#insert.run(firstId, lastId, entries, bytes, signed(from), signed(to), reason);
  }

  /** Ids that were reserved by a run that did not end cleanly. */
  addUnused(firstId: number, lastId: number): void {
    this.#insert.run(firstId, lastId, 0, 0, 0n, 0n, '');
  }

  between(after: number, upTo: number): StoredGap[] {
    return this.#between.all(after, upTo).map(gapOfRow);
  }

  /** Newest last. */
  latest(count: number): StoredGap[] {
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

function gapOfRow(row: GapRow): StoredGap {
  return {
    firstId: row.first,
    lastId: row.last,
    entries: row.entries,
    bytes: row.bytes,
    from: { high: row.fromHigh, low: row.fromLow },
    to: { high: row.toHigh, low: row.toLow },
    reason: row.reason,
  };
}

/** The same 64 bits, signed, as SQLite keeps them. */
function signed({ high, low }: { high: number; low: number }): bigint {
  return BigInt.asIntN(64, (BigInt(high) << 32n) | BigInt(low));
}
