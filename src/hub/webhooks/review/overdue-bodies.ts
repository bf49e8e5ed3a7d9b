/**
 * Keeps the bodies of deliveries that have been due for long, as a paused or blocked subscription's are: else one of them
 * would keep every later event of the device in the outbox, up to its budget. Bodies of events that the outbox keeps for
 * the broker anyway are not kept.
 */
import type { ChangeStore } from '../../outbox/change-store.ts';
import { type Bodies, madeBody } from '../delivery/body-made.ts';
import { deflateBody } from '../delivery/body-source.ts';
import type { PendingDelivery, RunMs } from '../parts.ts';
import type { Slice } from './retention-rows.ts';

/** Kept in one transaction; to make and deflate 1 MiB takes some 30 ms. */
const sliceKept = 64;
const sliceBytes = 1024 * 1024;

type Parameters = Slice & { readonly dueBefore: RunMs; readonly limit: number };

export class OverdueBodies {
  readonly #store: ChangeStore;
  readonly #bodies: Bodies;
  readonly #pinning;
  readonly #keep;

  constructor(store: ChangeStore, bodies: Bodies) {
    this.#store = store;
    this.#bodies = bodies;
    this.#pinning = store.connection.prepare<[Parameters], PendingDelivery>(
      `SELECT id, nonce, subscription_id AS subscriptionId, form_id AS templateId, first_event AS firstEvent,
         last_event AS lastEvent, occurred_at AS occurredAt, state, attempts, attempts_before AS attemptsBefore,
         due_run_ms AS dueRunMs
       FROM webhook_deliveries d NOT INDEXED WHERE id > $after AND id <= $upTo AND state IN ('pending', 'retrying')
       AND due_run_ms < $dueBefore AND NOT EXISTS (SELECT 1 FROM webhook_bodies b WHERE b.delivery_id = d.id)
       AND NOT EXISTS (SELECT 1 FROM outbox_waiting w WHERE w.id BETWEEN d.first_event AND d.last_event)
       ORDER BY id LIMIT $limit`,
    );
    this.#keep = store.connection.prepare<[number, Buffer]>(
      'INSERT INTO webhook_bodies (delivery_id, body) VALUES (?, ?)',
    );
  }

  /** A bounded piece of work. Answers up to which delivery of the slice it is done. */
  async keep(slice: Slice, dueBefore: RunMs): Promise<number> {
    const parameters = { ...slice, dueBefore, limit: sliceKept };
    if (this.#pinning.get(parameters) === undefined) return slice.upTo;
    return this.#store.maintain(() => {
      const found = this.#pinning.all(parameters);
      let bytes = 0;
      for (const delivery of found) {
        bytes += this.#kept(delivery);
        if (bytes >= sliceBytes) return delivery.id;
      }
      return found.length < sliceKept ? slice.upTo : (found.at(-1)?.id ?? slice.upTo);
    });
  }

  /** One that cannot be made has nothing to keep; its attempt will say so. */
  #kept(delivery: PendingDelivery): number {
    const made = madeBody(this.#bodies, this.#store.connection, delivery);
    if ('unavailable' in made) return 0;
    this.#keep.run(delivery.id, deflateBody(made.body));
    return made.body.length;
  }
}
