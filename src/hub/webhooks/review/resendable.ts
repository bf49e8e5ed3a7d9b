/** Whether a delivery that has ended can be sent again: its body is kept, or all of its events are. Asked inside the transaction. */
import type { Connection } from '../../../shared/storage/open.ts';
import { type Bodies, madeBody } from '../delivery/body-made.ts';
import type { DeliveryRow, ReviewRows } from './review-rows.ts';

/** What it costs to make a body of up to 1 MiB, in events looked at. */
const makingEvents = 5_000;

export class Resendable {
  readonly #rows: ReviewRows;
  readonly #bodies: Bodies;
  readonly #connection: Connection;

  constructor(rows: ReviewRows, bodies: Bodies, connection: Connection) {
    this.#rows = rows;
    this.#bodies = bodies;
    this.#connection = connection;
  }

  /** `unavailable`: '' when it can be, else why not. `looked`: the events that were looked at to find out. Throws SQLite's errors. */
  judge(row: DeliveryRow): { readonly unavailable: string; readonly looked: number } {
    if (this.#rows.hasBody(row.id)) return { unavailable: '', looked: 1 };
    const span = row.lastEvent - row.firstEvent + 1;
    if (this.#rows.events(row.firstEvent, row.lastEvent) === span) return { unavailable: '', looked: span };
    // Others' events have gone from between its own, or some of its own have.
    const made = madeBody(this.#bodies, this.#connection, row);
    return { unavailable: 'unavailable' in made ? made.unavailable : '', looked: span + makingEvents };
  }
}
