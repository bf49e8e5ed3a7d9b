/** Which events of the outbox must stay for webhooks: those not planned yet, and those of deliveries that still wait. */
import type { Connection } from '../../../shared/storage/open.ts';

/** Deliveries read in one call: some 5 ms. */
const maxLooked = 20_000;

interface Position {
  readonly id: number;
  readonly firstEvent: number;
}

/**
 * The first event of a delivery never falls as its id rises, so the oldest delivery that waits says it for all of them. It
 * is found by walking on from the one found last: those before it do not wait.
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

  /** No event above this may be removed. Lower than need be while many deliveries are still to be read. */
  keepAbove(): number {
    const cursor = this.#cursor();
    // Behind that many; undefined: there are fewer.
    const behind = this.#sql.end.get(this.#from, maxLooked);
    const last = behind ?? this.#sql.newest.get();
    if (last === undefined) return cursor;
    const waiting = this.#sql.waiting.get(this.#from, last.id);
    const reached = waiting ?? last;
    this.#from = Math.max(this.#from, reached.id);
    return waiting === undefined && behind === undefined ? cursor : Math.min(cursor, reached.firstEvent - 1);
  }

  /**
   * A delivery whose first event is this one waits again. To be called within the transaction that makes it so (before it
   * commits: a removal might come next); where that fails nothing is lost but a walk.
   */
  retainFrom(firstEvent: number): void {
    const newest = this.#sql.newest.get();
    if (newest === undefined) return;
    // The lowest id with such a first event or a later one: ids have gaps, so by halves.
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
    // A body that is kept needs no events. By id: the index of those that wait is in another order.
    waiting: connection.prepare<[number, number], Position>(
      `SELECT ${columns} d NOT INDEXED WHERE id BETWEEN ? AND ? AND state IN ('pending', 'retrying')
       AND NOT EXISTS (SELECT 1 FROM webhook_bodies b WHERE b.delivery_id = d.id) ORDER BY id LIMIT 1`,
    ),
    end: connection.prepare<[number, number], Position>(`SELECT ${columns} WHERE id >= ? ORDER BY id LIMIT 1 OFFSET ?`),
    next: connection.prepare<[number], Position>(`SELECT ${columns} WHERE id >= ? ORDER BY id LIMIT 1`),
    newest: connection.prepare<[], Position>(`SELECT ${columns} ORDER BY id DESC LIMIT 1`),
  };
}
