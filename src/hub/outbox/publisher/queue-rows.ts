/** The SQL of the publisher: reads waiting events, marks them, and defers those of keys that cannot go on. */
import type { Instant } from '../../../shared/base/instant.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import type { Scope } from '../event.ts';
import { withBody } from '../storage-errors.ts';
import { type Body, type DeferredHead, lastRetryMs, type Refusal, type RowUpdate, type Waiting } from './key-queues.ts';

interface ScannedRow extends Waiting, Body {
  /** In outbox_deferred: it needs no scan. */
  readonly isDeferred: 0 | 1;
}

export interface BlockedKey {
  readonly scope: Scope;
  readonly key: string;
  readonly id: number;
  readonly attempts: number;
  readonly reason: string;
  readonly dueMs: number;
}

type Head = Omit<DeferredHead, 'scope' | 'refused'>;

/** Limits of one read, which takes about 3 ms. */
const readRows = 500;
const readBytes = 512 * 1024;

export class QueueRows {
  readonly sql: ReturnType<typeof statements>;
  #ahead: readonly ScannedRow[] = [];
  #index = 0;
  #at = -1;
  hasDeferred = false;

  constructor(connection: Connection) {
    this.sql = statements(connection);
    this.lookForDeferred();
  }

  // ---- the scan

  /** The first waiting event behind `after`. */
  peek(after: number): ScannedRow | undefined {
    if (after !== this.#at || this.#index >= this.#ahead.length) {
      this.#ahead = this.#read(after);
      this.#index = 0;
      this.#at = after;
    }
    return this.#ahead[this.#index];
  }

  #read(after: number): readonly ScannedRow[] {
    const found: ScannedRow[] = [];
    let bytes = 0;
    for (const row of this.sql.after.iterate(after, readRows)) {
      found.push(withBody(row));
      bytes += row.body.length;
      if (bytes >= readBytes) break;
    }
    return found;
  }

  /** undefined: it no longer waits. Throws STORAGE_DAMAGED. */
  one(id: number): Body | undefined {
    const row = this.sql.one.get(id);
    return row && withBody(row);
  }

  consumed({ id }: ScannedRow): void {
    this.#index++;
    this.#at = id;
  }

  /** What was read ahead. */
  drop(): void {
    this.#at = -1;
  }

  /** These are committed. One that is read ahead, because the scan has returned, would be sent once more behind later ones. */
  written(batch: readonly Pick<RowUpdate, 'id'>[]): void {
    if (batch.some(({ id }) => id > this.#at)) this.drop();
  }

  // ---- deferred events

  /** Keys of each topic whose first event was refused. */
  blockedKeys(): ReadonlyMap<Scope, number> {
    return new Map(this.sql.blockedCounts.all().map(({ scope, keys }) => [scope, keys]));
  }

  /** To be called after each commit that may have changed it. */
  lookForDeferred(): void {
    this.hasDeferred = this.sql.hasDeferred.get() === 1;
  }

  isKeyDeferred({ scope, key }: Waiting): boolean {
    return this.hasDeferred && this.sql.isKeyDeferred.get(scope, key) === 1;
  }

  /** Those due first. A time later than any retry is of another boot. */
  dueHeads(scope: Scope, refused: boolean, nowMs: number, limit: number): readonly DeferredHead[] {
    const { dueHeads, strayHeads } = this.sql;
    const heads = dueHeads.all(scope, Number(refused), nowMs, limit);
    const stray = strayHeads.all(scope, Number(refused), nowMs + lastRetryMs, limit);
    return [...heads, ...stray].map((head) => ({ ...head, scope, refused }));
  }

  /** Keys whose first event was refused: how many, and the first of them. */
  blocked(limit: number): { readonly count: number; readonly first: readonly BlockedKey[] } {
    if (!this.hasDeferred) return { count: 0, first: [] };
    const count = this.sql.blockedCounts.all().reduce((sum, { keys }) => sum + keys, 0);
    return { count, first: this.sql.blocked.all(limit) };
  }

  defer({ queue: { scope, key, refused }, ids, retries, dueMs }: RowUpdate & { readonly kind: 'deferred' }): void {
    ids.forEach((id, index) => {
      if (index === 0) this.sql.deferHead.run(scope, key, dueMs, retries, Number(refused), id);
      else this.sql.deferBehind.run(scope, key, id);
    });
  }

  deferBehind(id: number, { scope, key }: Omit<Waiting, 'id'>): void {
    this.sql.deferBehind.run(scope, key, id);
  }

  /** After events were deferred: the first of the key is its head, and no other. */
  setHead({ scope, key }: Omit<Waiting, 'id'>): void {
    const first = this.sql.firstOfKey.get(scope, key);
    if (typeof first !== 'number') return;
    this.sql.demote.run(scope, key, first);
    this.sql.promote.run(first);
  }

  // ---- marks

  /** Returns how many of them waited. The ids are mostly consecutive: one statement for each run of them. */
  markPublished(ids: readonly number[], at: Instant): number {
    const sorted = ids.toSorted((a, b) => a - b);
    let changed = 0;
    let first = 0;
    sorted.forEach((id, index) => {
      if (sorted[index + 1] === id + 1) return;
      this.sql.publish.run(at, sorted[first] ?? id, id);
      changed += this.sql.remove.run(sorted[first] ?? id, id).changes;
      first = index + 1;
    });
    return changed;
  }

  /** Returns whether it waited. */
  markDead(id: number, { attempts, reason }: Refusal, at: Instant): boolean {
    if (this.sql.remove.run(id, id).changes === 0) return false;
    this.sql.deadLetter.run(id, at, attempts, reason);
    return true;
  }
}

function statements(connection: Connection) {
  const waiting = 'FROM outbox_waiting w CROSS JOIN events e ON e.id = w.id';
  const keyOf = "e.dictionary || ':' || e.business_key";
  const ofKey = 'outbox_deferred WHERE scope = ? AND key = ?';
  const head = 'SELECT id, key, retries FROM outbox_deferred WHERE scope = ? AND refused = ?';
  const earliest = 'ORDER BY due_ms, id LIMIT ?';
  return {
    after: connection.prepare<[number, number], ScannedRow>(
      `SELECT w.id, scope, ${keyOf} AS key, EXISTS (SELECT 1 FROM outbox_deferred d WHERE d.id = w.id) AS isDeferred,
         attempts, body
       ${waiting} WHERE w.id > ? ORDER BY w.id LIMIT ?`,
    ),
    /** None: it no longer waits. */
    one: connection.prepare<[number], Body & Pick<Waiting, 'id'>>(
      `SELECT w.id, attempts, body ${waiting} WHERE w.id = ?`,
    ),
    count: connection.prepare<[], number>('SELECT count(*) FROM outbox_waiting').pluck(),
    oldest: connection.prepare<[], { id: number; txTime: Instant }>(
      `SELECT w.id, tx_time AS txTime ${waiting} ORDER BY w.id LIMIT 1`,
    ),
    hasDeferred: connection.prepare<[], number>('SELECT EXISTS (SELECT 1 FROM outbox_deferred)').pluck(),
    isKeyDeferred: connection.prepare<[Scope, string], number>(`SELECT EXISTS (SELECT 1 FROM ${ofKey})`).pluck(),
    dueHeads: connection.prepare<[Scope, number, number, number], Head>(`${head} AND due_ms <= ? ${earliest}`),
    strayHeads: connection.prepare<[Scope, number, number, number], Head>(`${head} AND due_ms > ? ${earliest}`),
    /** The broker is connected again. */
    hasten: connection.prepare<[]>(
      'UPDATE outbox_deferred SET due_ms = 0, retries = 0 WHERE due_ms > 0 AND refused = 0',
    ),
    blockedCounts: connection.prepare<[], { scope: Scope; keys: number }>(
      `SELECT scope, count(*) AS keys FROM outbox_deferred WHERE due_ms IS NOT NULL AND refused = 1 GROUP BY scope`,
    ),
    blocked: connection.prepare<[number], BlockedKey>(
      `SELECT d.id, scope, key, attempts, last_error AS reason, due_ms AS dueMs
       FROM outbox_deferred d JOIN outbox_waiting w ON w.id = d.id
       WHERE due_ms IS NOT NULL AND refused = 1 ORDER BY d.id LIMIT ?`,
    ),
    deferHead: connection.prepare<[Scope, string, number, number, number, number]>(
      `INSERT INTO outbox_deferred (id, scope, key, due_ms, retries, refused)
       SELECT id, ?, ?, ?, ?, ? FROM outbox_waiting WHERE id = ?
       ON CONFLICT (id) DO UPDATE SET due_ms = excluded.due_ms, retries = excluded.retries, refused = excluded.refused`,
    ),
    deferBehind: connection.prepare<[Scope, string, number]>(
      `INSERT OR IGNORE INTO outbox_deferred (id, scope, key, retries, refused)
       SELECT id, ?, ?, 0, 0 FROM outbox_waiting WHERE id = ?`,
    ),
    firstOfKey: connection.prepare<[Scope, string], number | null>(`SELECT min(id) FROM ${ofKey}`).pluck(),
    demote: connection.prepare<[Scope, string, number]>(
      `UPDATE outbox_deferred SET due_ms = NULL WHERE scope = ? AND key = ? AND id > ? AND due_ms IS NOT NULL`,
    ),
    promote: connection.prepare<[number]>('UPDATE outbox_deferred SET due_ms = 0 WHERE id = ? AND due_ms IS NULL'),
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
