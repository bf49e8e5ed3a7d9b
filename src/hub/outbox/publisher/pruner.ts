/** Removes published rows some days after, and without a broker the oldest rows when outbox.max_bytes is reached. */
import type { Clock } from '../../../shared/base/clock.ts';
import { type Instant, instantOfMs } from '../../../shared/base/instant.ts';
import type { Logger } from '../../../shared/base/logger.ts';
import { FailureLog, Loop } from '../../../shared/base/loop.ts';
import type { Connection } from '../../../shared/storage/open.ts';
import type { Audit, ChangeStore } from '../change-store.ts';

export interface PrunerOptions {
  readonly store: ChangeStore;
  readonly keepPublishedDays: number;
  /** Webhooks have not planned events above this yet: they are not removed. */
  readonly keepAbove?: (() => number) | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

interface Oldest {
  /** null: there is none. */
  readonly lastId: number | null;
  readonly fromTxTime: Instant;
  readonly toTxTime: Instant;
}

interface Slice {
  readonly after: number;
  readonly upTo: number;
  /** Rows published before, or created before and sent to no topic, are old. */
  readonly before: Instant;
}

const dayMs = 86_400_000;
/** A sweep reads the whole table, a million rows in about 2 s. */
const sweepMs = 3_600_000;
/** Between slices, so that a sweep takes at most a tenth of the event loop. */
const sliceMs = 50;
/** Removed in about 10 ms. */
const sliceRows = 1_000;

export class Pruner {
  readonly #o: PrunerOptions;
  readonly #sql: ReturnType<typeof statements>;
  readonly #loop: Loop;
  #after = 0;
  /** Events removed before they were published, because there was neither room nor a broker. */
  prunedTotal = 0;

  constructor(options: PrunerOptions) {
    const { clock, logger } = options;
    this.#o = options;
    this.#sql = statements(options.store.connection);
    const what = 'old outbox rows';
    const failures = new FailureLog(logger, `${what} could not be removed`, `${what} can be removed again`);
    this.#loop = new Loop({ pass: () => this.#slice(), failures, clock, retryFirstMs: sweepMs, retryMaxMs: sweepMs });
  }

  start(): void {
    this.#loop.start(sliceMs);
  }

  stop(): void {
    void this.#loop.stop();
  }

  /** Returns the pause after this slice. The wall clock is good enough: the rows have reached the broker. */
  async #slice(): Promise<number> {
    const { store, clock, keepPublishedDays } = this.#o;
    const end = this.#sql.sliceEnd.get(this.#after, sliceRows) ?? 0;
    const before = instantOfMs(clock.wallMs() - keepPublishedDays * dayMs);
    const slice = { after: this.#after, upTo: this.#unneeded(end), before };
    if (slice.upTo > slice.after) {
      if (this.#sql.hasOld.get(slice) !== undefined) {
        await store.maintain(() => this.#removeOld(slice));
      }
      this.#after = slice.upTo;
    }
    if (end > 0 && this.#after === end) return sliceMs;
    this.#after = 0;
    return sweepMs;
  }

  #removeOld(slice: Slice): void {
    this.#sql.removeOld.run(slice);
    this.#sql.forget.run(slice);
  }

  #unneeded(upTo: number): number {
    return Math.min(upTo, this.#o.keepAbove?.() ?? upTo);
  }

  /**
   * Within a transaction: removes a slice of the oldest events, whether they wait or not, dead letters excepted. Returns what
   * to do once that is committed (`onLeft`: how many no longer wait); undefined: no event may be removed.
   */
  makeRoom(audit: Audit, onLeft: (waited: number) => void): (() => void) | undefined {
    const { oldest, dropWaiting, dropPublished, dropEvents } = this.#sql;
    const { lastId = null, ...times } = oldest.get(this.#unneeded(Number.MAX_SAFE_INTEGER), sliceRows) ?? {};
    if (lastId === null) return undefined;
    const waited = dropWaiting.run(lastId).changes;
    dropPublished.run(lastId);
    const events = dropEvents.run(lastId).changes;
    if (events === 0) return undefined;
    if (waited > 0) {
      const details = { events, waited, ...times };
      audit(this.#o.store.now(), 'publisher', 'outbox.pruned', 'oldest events', details);
    }
    return () => {
      if (waited > 0 && this.prunedTotal === 0) {
        const what = 'oldest events pruned: outbox.max_bytes is reached and Kafka is not configured';
        this.#o.logger.warn(what, { events: waited });
      }
      this.prunedTotal += waited;
      onLeft(waited);
    };
  }
}

function statements(connection: Connection) {
  const isNoDeadLetter = 'id NOT IN (SELECT outbox_id FROM dead_letters)';
  const inSlice = 'id > $after AND id <= $upTo';
  const old = `outbox_events WHERE ${inSlice} AND (
    id IN (SELECT id FROM outbox_published WHERE ${inSlice} AND published_at < $before)
    OR (tx_time < $before AND id NOT IN (SELECT id FROM outbox_waiting WHERE ${inSlice})
      AND id NOT IN (SELECT id FROM outbox_published WHERE ${inSlice}) AND ${isNoDeadLetter}))`;
  return {
    sliceEnd: connection
      .prepare<[number, number], number | null>(
        'SELECT max(id) FROM (SELECT id FROM outbox_events WHERE id > ? ORDER BY id LIMIT ?)',
      )
      .pluck(),
    hasOld: connection.prepare<[Slice], number>(`SELECT 1 FROM ${old} LIMIT 1`).pluck(),
    removeOld: connection.prepare<[Slice]>(`DELETE FROM ${old}`),
    forget: connection.prepare<[Slice]>(`DELETE FROM outbox_published WHERE ${inSlice} AND published_at < $before`),
    oldest: connection.prepare<[number, number], Oldest>(
      `SELECT max(id) AS lastId, min(tx_time) AS fromTxTime, max(tx_time) AS toTxTime
       FROM (SELECT id, tx_time FROM outbox_events WHERE id <= ? AND ${isNoDeadLetter} ORDER BY id LIMIT ?)`,
    ),
    dropWaiting: connection.prepare<[number]>('DELETE FROM outbox_waiting WHERE id <= ?'),
    dropPublished: connection.prepare<[number]>('DELETE FROM outbox_published WHERE id <= ?'),
    dropEvents: connection.prepare<[number]>(`DELETE FROM outbox_events WHERE id <= ? AND ${isNoDeadLetter}`),
  };
}
