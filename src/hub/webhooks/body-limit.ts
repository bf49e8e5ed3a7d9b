/**
 * Brings the bodies that are kept of ended deliveries back within so many bytes in all, the oldest first: a subscriber that
 * refuses everything for weeks must not fill refdata.db. Whose body has gone can be sent again while its events are kept.
 */
import type { ChangeStore } from '../outbox/change-store.ts';
import type { Slice } from './retention-rows.ts';

interface Kept {
  readonly id: number;
  readonly bytes: number;
}

/** Removed in one transaction: of 100 KiB each, as those of large imports are, some 6 MiB. */
const sliceRemoved = 64;

export class BodyLimit {
  readonly #store: ChangeStore;
  readonly #ended;
  readonly #remove;
  /** Still to be removed. */
  #excess: number;

  constructor(store: ChangeStore, excess: number) {
    this.#store = store;
    this.#excess = excess;
    // What waits needs its body: its events may have gone.
    this.#ended = store.connection.prepare<[Slice & { readonly limit: number }], Kept>(
      `SELECT delivery_id AS id, length(body) AS bytes FROM webhook_bodies b WHERE delivery_id > $after
       AND delivery_id <= $upTo AND EXISTS (SELECT 1 FROM webhook_deliveries d WHERE d.id = b.delivery_id
         AND d.ended_run_ms IS NOT NULL) ORDER BY delivery_id LIMIT $limit`,
    );
    this.#remove = store.connection.prepare<[string]>(
      'DELETE FROM webhook_bodies WHERE delivery_id IN (SELECT value FROM json_each(?))',
    );
  }

  /** A bounded piece of work. Answers up to which delivery of the slice it is done. */
  async cut(slice: Slice): Promise<number> {
    if (this.#excess <= 0 || this.#ended.get({ ...slice, limit: 1 }) === undefined) return slice.upTo;
    const { upTo, bytes } = await this.#store.maintain(() => this.#cut(slice));
    this.#excess -= bytes;
    return upTo;
  }

  /** In the transaction. */
  #cut(slice: Slice): { readonly upTo: number; readonly bytes: number } {
    const found = this.#ended.all({ ...slice, limit: sliceRemoved });
    const removed: number[] = [];
    let bytes = 0;
    for (const one of found) {
      if (bytes >= this.#excess) break;
      bytes += one.bytes;
      removed.push(one.id);
    }
    this.#remove.run(JSON.stringify(removed));
    return { upTo: removed.length < sliceRemoved ? slice.upTo : (removed.at(-1) ?? slice.upTo), bytes };
  }
}
