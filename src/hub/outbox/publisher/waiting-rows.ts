/** The SQL of the publisher: reads waiting rows and marks them. */
import type { Instant } from '../../../shared/base/instant.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import type { Scope } from '../event.ts';
import type { RowHead } from './scheduler-state.ts';

interface StoredRow {
  readonly id: number;
  readonly scope: Scope;
  readonly dictionary: string;
  readonly businessKey: string;
  readonly attempts: number;
  readonly body: string;
}

/** A row as it is sent. */
export interface Row extends RowHead {
  readonly body: string;
}

export interface Read<R> {
  readonly rows: readonly R[];
  /** Every row up to here was read, skipped rows included. */
  readonly readTo: number;
  /** No row waits behind. */
  readonly ended: boolean;
}

/** Limits of one read, which takes about 3 ms. */
const readRows = 500;
const readChars = 512 * 1024;
/** Including rows that are in memory. */
const scannedRows = 5_000;

export class WaitingRows {
  readonly #sql: ReturnType<typeof statements>;
  readonly #topicOf: (scope: Scope) => string;

  constructor(connection: Connection, topicOf: (scope: Scope) => string) {
    this.#sql = statements(connection);
    this.#topicOf = topicOf;
  }

  read(after: number, skip: (id: number) => boolean): Read<Row> {
    const rows: Row[] = [];
    let chars = 0;
    let scanned = 0;
    for (const row of this.#sql.after.iterate(after)) {
      if (!skip(row.id)) {
        rows.push(this.#rowOf(row));
        chars += row.body.length;
      }
      if (rows.length >= readRows || chars >= readChars || ++scanned >= scannedRows) {
        return { rows, readTo: row.id, ended: false };
      }
    }
    return { rows, readTo: rows.at(-1)?.id ?? after, ended: true };
  }

  /** undefined: it no longer waits. */
  one(id: number): Row | undefined {
    const stored = this.#sql.one.get(id);
    return stored && this.#rowOf(stored);
  }

  #rowOf({ id, scope, dictionary, businessKey, attempts, body }: StoredRow): Row {
    const key = `${dictionary}:${businessKey}`;
    const bytes = Buffer.byteLength(body) + Buffer.byteLength(key);
    return { id, topic: this.#topicOf(scope), key, attempts, bytes, body };
  }

  count(): number {
    return this.#sql.count.get() ?? 0;
  }

  oldest(): { readonly id: number; readonly txTime: Instant } | undefined {
    return this.#sql.oldest.get();
  }

  /** Returns how many of them waited. The ids are mostly consecutive: one statement for each run of them. */
  markPublished(ids: readonly number[], at: Instant): number {
    const sorted = ids.toSorted((a, b) => a - b);
    let changed = 0;
    let first = 0;
    sorted.forEach((id, index) => {
      if (sorted[index + 1] === id + 1) return;
      this.#sql.publish.run(at, sorted[first] ?? id, id);
      changed += this.#sql.remove.run(sorted[first] ?? id, id).changes;
      first = index + 1;
    });
    return changed;
  }

  markAttempt(id: number, attempts: number, reason: string): void {
    this.#sql.attempt.run(attempts, reason, id);
  }

  /** Returns whether it waited. */
  markDead(id: number, attempts: number, reason: string, at: Instant): boolean {
    if (this.#sql.remove.run(id, id).changes === 0) return false;
    this.#sql.deadLetter.run(id, at, attempts, reason);
    return true;
  }
}

/** Reads rows in blocks, and returns them one by one. */
export class ReadAhead<R> {
  readonly #read: (after: number) => Read<R>;
  #rows: readonly R[] = [];
  #index = 0;
  #readTo = 0;
  /** For which pass the rows were read. */
  #pass: number | undefined;

  constructor(read: (after: number) => Read<R>) {
    this.#read = read;
  }

  /** The next row behind `after`; undefined: none waits. Rows read for another pass are dropped. */
  peek({ after, pass }: { readonly after: number; readonly pass: number }): R | undefined {
    if (pass !== this.#pass) {
      this.drop();
      this.#pass = pass;
      this.#readTo = after;
    }
    while (this.#index >= this.#rows.length) {
      const { rows, readTo, ended } = this.#read(this.#readTo);
      this.#rows = rows;
      this.#index = 0;
      this.#readTo = readTo;
      if (ended) break;
    }
    return this.#rows[this.#index];
  }

  consumed(): void {
    this.#index++;
  }

  drop(): void {
    this.#rows = [];
    this.#index = 0;
    this.#pass = undefined;
  }
}

function statements(connection: Connection) {
  const columns = 'w.id, scope, dictionary, business_key AS businessKey, attempts, body';
  const waiting = 'FROM outbox_waiting w CROSS JOIN outbox_events e ON e.id = w.id';
  return {
    after: connection.prepare<[number], StoredRow>(`SELECT ${columns} ${waiting} WHERE w.id > ? ORDER BY w.id`),
    one: connection.prepare<[number], StoredRow>(`SELECT ${columns} ${waiting} WHERE w.id = ?`),
    count: connection.prepare<[], number>('SELECT count(*) FROM outbox_waiting').pluck(),
    oldest: connection.prepare<[], { id: number; txTime: Instant }>(
      `SELECT w.id, tx_time AS txTime ${waiting} ORDER BY w.id LIMIT 1`,
    ),
    publish: connection.prepare<[Instant, number, number]>(
      'INSERT INTO outbox_published (id, published_at) SELECT id, ? FROM outbox_waiting WHERE id BETWEEN ? AND ?',
    ),
    remove: connection.prepare<[number, number]>('DELETE FROM outbox_waiting WHERE id BETWEEN ? AND ?'),
    attempt: connection.prepare<[number, string, number]>(
      'UPDATE outbox_waiting SET attempts = ?, last_error = ? WHERE id = ?',
    ),
    deadLetter: connection.prepare<[number, Instant, number, string]>(
      'INSERT INTO dead_letters (outbox_id, died_at, attempts, reason) VALUES (?, ?, ?, ?)',
    ),
  };
}
