/** The SQL of the publisher: rows that wait, what becomes of them, and removing the old ones. */
import type { Instant } from '../../../shared/base/instant.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import type { Scope } from '../event.ts';
import type { Read } from './read-ahead.ts';

export interface StoredRow {
  readonly id: number;
  readonly scope: Scope;
  readonly dictionary: string;
  readonly businessKey: string;
  readonly attempts: number;
  readonly body: string;
}

/** What one read brings at most, so that neither memory nor the loop is held: some 3 ms. */
const readRows = 500;
const readChars = 512 * 1024;
/** Rows read to find them, those in memory included. */
const scannedRows = 5_000;
/** A slice of removal: 10 ms on this machine. */
const pruneRows = 1_000;

const columns = 'w.id, scope, dictionary, business_key AS businessKey, attempts, body';
const waiting = 'FROM outbox_waiting w CROSS JOIN outbox_events e ON e.id = w.id';
/** Acknowledged before, or made before and to be sent to no topic; those of dead letters stay. */
const removable = `(id IN (SELECT id FROM outbox_published WHERE id > $after AND id <= $upTo AND published_at < $before)
  OR (tx_time < $before AND id NOT IN (SELECT id FROM outbox_waiting WHERE id > $after AND id <= $upTo)
    AND id NOT IN (SELECT id FROM outbox_published WHERE id > $after AND id <= $upTo)
    AND id NOT IN (SELECT outbox_id FROM dead_letters)))`;

export class WaitingRows {
  readonly #after;
  readonly #one;
  readonly #count;
  readonly #oldest;
  readonly #publish;
  readonly #leave;
  readonly #attempt;
  readonly #deadLetter;
  readonly #sliceEnd;
  readonly #hasOld;
  readonly #removeOld;
  readonly #forget;
  readonly #dispensable;
  readonly #dropWaiting;
  readonly #dropPublished;
  readonly #dropEvents;

  constructor(connection: Connection) {
    this.#after = connection.prepare<[number], StoredRow>(`SELECT ${columns} ${waiting} WHERE w.id > ? ORDER BY w.id`);
    this.#one = connection.prepare<[number], StoredRow>(`SELECT ${columns} ${waiting} WHERE w.id = ?`);
    this.#count = connection.prepare<[], number>('SELECT count(*) FROM outbox_waiting').pluck();
    this.#oldest = connection.prepare<[], { id: number; txTime: Instant }>(
      `SELECT w.id, tx_time AS txTime ${waiting} ORDER BY w.id LIMIT 1`,
    );
    this.#publish = connection.prepare<[Instant, number, number]>(
      `INSERT INTO outbox_published (id, published_at) SELECT id, ? FROM outbox_waiting WHERE id BETWEEN ? AND ?`,
    );
    this.#leave = connection.prepare<[number, number]>('DELETE FROM outbox_waiting WHERE id BETWEEN ? AND ?');
    this.#attempt = connection.prepare<[number, string, number]>(
      'UPDATE outbox_waiting SET attempts = ?, last_error = ? WHERE id = ?',
    );
    this.#deadLetter = connection.prepare<[number, Instant, number, string]>(
      'INSERT INTO dead_letters (outbox_id, died_at, attempts, reason) VALUES (?, ?, ?, ?)',
    );
    this.#sliceEnd = connection
      .prepare<[number, number], number | null>(
        'SELECT max(id) FROM (SELECT id FROM outbox_events WHERE id > ? ORDER BY id LIMIT ?)',
      )
      .pluck();
    const slice = `outbox_events WHERE id > $after AND id <= $upTo AND ${removable}`;
    this.#hasOld = connection.prepare<[Slice], number>(`SELECT 1 FROM ${slice} LIMIT 1`).pluck();
    this.#removeOld = connection.prepare<[Slice]>(`DELETE FROM ${slice}`);
    this.#forget = connection.prepare<[Slice]>(
      'DELETE FROM outbox_published WHERE id > $after AND id <= $upTo AND published_at < $before',
    );
    const isNoDeadLetter = 'id NOT IN (SELECT outbox_id FROM dead_letters)';
    this.#dispensable = connection.prepare<[number, number], Dispensable>(
      `SELECT max(id) AS lastId, min(tx_time) AS fromTxTime, max(tx_time) AS toTxTime
       FROM (SELECT id, tx_time FROM outbox_events WHERE id <= ? AND ${isNoDeadLetter} ORDER BY id LIMIT ?)`,
    );
    this.#dropWaiting = connection.prepare<[number]>('DELETE FROM outbox_waiting WHERE id <= ?');
    this.#dropPublished = connection.prepare<[number]>('DELETE FROM outbox_published WHERE id <= ?');
    this.#dropEvents = connection.prepare<[number]>(`DELETE FROM outbox_events WHERE id <= ? AND ${isNoDeadLetter}`);
  }

  /** The oldest events up to an id, whether they wait or not, dead letters excepted. Answers what was removed. */
  prune(upTo: number): Pruned | undefined {
    const slice = this.#dispensable.get(upTo, pruneRows);
    if (slice === undefined || slice.lastId === null) return undefined;
    const waited = this.#dropWaiting.run(slice.lastId).changes;
    this.#dropPublished.run(slice.lastId);
    const events = this.#dropEvents.run(slice.lastId).changes;
    return { events, waited, fromTxTime: slice.fromTxTime, toTxTime: slice.toTxTime };
  }

  /** The next rows behind an id, but those `skip` names. */
  read(after: number, skip: (id: number) => boolean): Read<StoredRow> {
    const rows: StoredRow[] = [];
    let chars = 0;
    let scanned = 0;
    for (const row of this.#after.iterate(after)) {
      if (!skip(row.id)) {
        rows.push(row);
        chars += row.body.length;
      }
      if (rows.length >= readRows || chars >= readChars || ++scanned >= scannedRows) {
        return { rows, readTo: row.id, ended: false };
      }
    }
    return { rows, readTo: rows.at(-1)?.id ?? after, ended: true };
  }

  /** undefined: it does not wait any more. */
  one(id: number): StoredRow | undefined {
    return this.#one.get(id);
  }

  count(): number {
    return this.#count.get() ?? 0;
  }

  oldest(): { readonly id: number; readonly txTime: Instant } | undefined {
    return this.#oldest.get();
  }

  /** Answers how many of them waited. The ids are mostly neighbours: a statement for each run of them. */
  markPublished(ids: readonly number[], at: Instant): number {
    const sorted = ids.toSorted((a, b) => a - b);
    let changed = 0;
    let first = 0;
    sorted.forEach((id, place) => {
      if (sorted[place + 1] === id + 1) return;
      this.#publish.run(at, sorted[first] ?? id, id);
      changed += this.#leave.run(sorted[first] ?? id, id).changes;
      first = place + 1;
    });
    return changed;
  }

  markAttempt(id: number, attempts: number, reason: string): void {
    this.#attempt.run(attempts, reason, id);
  }

  /** Answers whether it waited. */
  markDead(id: number, attempts: number, reason: string, at: Instant): boolean {
    if (this.#leave.run(id, id).changes === 0) return false;
    this.#deadLetter.run(id, at, attempts, reason);
    return true;
  }

  /** The end of the slice of rows behind `after`; undefined: there are none. */
  sliceEnd(after: number): number | undefined {
    return this.#sliceEnd.get(after, pruneRows) ?? undefined;
  }

  hasOld(slice: Slice): boolean {
    return this.#hasOld.get(slice) !== undefined;
  }

  /** Answers how many. */
  removeOld(slice: Slice): number {
    const removed = this.#removeOld.run(slice).changes;
    this.#forget.run(slice);
    return removed;
  }
}

export interface Pruned {
  readonly events: number;
  /** Those of them that were still to be published. */
  readonly waited: number;
  readonly fromTxTime: Instant;
  readonly toTxTime: Instant;
}

interface Dispensable extends Pick<Pruned, 'fromTxTime' | 'toTxTime'> {
  /** null: there is none. */
  readonly lastId: number | null;
}

interface Slice {
  readonly after: number;
  readonly upTo: number;
  /** What was published before, or made before and never to be sent, is old. */
  readonly before: Instant;
}
