/** Events that the outbox must keep for webhooks: those not planned yet, and those of waiting deliveries. */
import type { Connection } from '../../../shared/storage/open.ts';

/** Deliveries read in one call: some 5 ms. */
const maxRows = 20_000;

interface Position {
  readonly id: number;
  readonly firstEvent: number;
}

/**
 * The first event of a delivery never falls as its id rises, so the oldest waiting delivery decides. The search continues
 * from the delivery found last: those before it do not wait.
 */
export class RetainedEvents {
  readonly #cursor: () => number;
  readonly #sql: ReturnType<typeof statements>;
  #from = 0;

  /** `cursor`: the planner's. */
  constructor(connection: Connection, cursor: () => number) {
    this.#cursor = cursor;
    this.#sql = statements(connection);
  }

  /** No event above this may be removed. Lower than necessary while many deliveries are still to be read. */
  keepAbove(): number {
    const cursor = this.#cursor();
    const behind = this.#sql.end.get(this.#from, maxRows);
    const last = behind ?? this.#sql.newest.get();
    if (last === undefined) return cursor;
    const waiting = this.#sql.waiting.get(this.#from, last.id);
    const reached = waiting ?? last;
    this.#from = Math.max(this.#from, reached.id);
    return waiting === undefined && behind === undefined ? cursor : Math.min(cursor, reached.firstEvent - 1);
  }

  /**
   * A delivery with this first event waits again. Must be called inside the transaction that makes it wait: a removal might
   * follow its commit. If the transaction fails, only a search is repeated.
   */
  retainFrom(firstEvent: number): void {
    const newest = this.#sql.newest.get();
    if (newest === undefined) return;
    // Binary search, because ids have gaps: the lowest id with this first event or a later one.
    let [low, high] = [0, Math.min(this.#from, newest.id)];
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const position = this.#sql.next.get(middle);
      if (position === undefined || position.firstEvent >= firstEvent) high = middle;
      else low = position.id + 1;
    }
    this.#from = Math.min(this.#from, low);
  }
}

function statements(connection: Connection) {
  const columns = 'id, first_event AS firstEvent FROM webhook_deliveries';
  return {
    // A kept body needs no events. NOT INDEXED: the index webhook_due has another order.
    waiting: connection.prepare<[number, number], Position>(
      `SELECT ${columns} d NOT INDEXED WHERE id BETWEEN ? AND ? AND state IN ('pending', 'retrying')
       AND NOT EXISTS (SELECT 1 FROM webhook_bodies b WHERE b.delivery_id = d.id) ORDER BY id LIMIT 1`,
    ),
    end: connection.prepare<[number, number], Position>(`SELECT ${columns} WHERE id >= ? ORDER BY id LIMIT 1 OFFSET ?`),
    next: connection.prepare<[number], Position>(`SELECT ${columns} WHERE id >= ? ORDER BY id LIMIT 1`),
    newest: connection.prepare<[], Position>(`SELECT ${columns} ORDER BY id DESC LIMIT 1`),
  };
}
