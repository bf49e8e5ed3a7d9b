/**
 * Removes deliveries some days after they ended, those of deleted subscriptions, and the oldest answers where all of them
 * are too many bytes; in slices that hold neither the loop nor a change. By running time alone: the wall clock may jump by
 * years, and no history goes for that. What waits stays, however long; history never takes the room of changes.
 */
import type { Clock, Timer } from '../../../shared/base/clock.ts';
import { messageOf } from '../../../shared/base/errors.ts';
import type { Logger } from '../../../shared/base/logger.ts';
import type { ChangeStore } from '../../outbox/change-store.ts';
import type { Bodies } from '../delivery/body-made.ts';
import type { RunningTime } from '../running-time.ts';
import { AnswerLimit } from './answer-limit.ts';
import { OverdueBodies } from './overdue-bodies.ts';
import { storeFailure } from './readable.ts';
import { type Ages, RetentionRows, type Slice } from './retention-rows.ts';

export interface RetentionOptions {
  readonly store: ChangeStore;
  readonly bodies: Bodies;
  readonly running: Pick<RunningTime, 'now'>;
  readonly keepDeliveredDays: number;
  /** Of rejected and failed ones. */
  readonly keepFailedDays: number;
  /** Of all answers; beyond it the oldest go. */
  readonly maxAnswerBytes: number;
  /** Of refdata.db (outbox.max_bytes): shares of it bound the history. */
  readonly maxBytes: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Committed: deliveries were removed. */
  readonly onRemoved?: () => void;
}

export interface Retention {
  start(): void;
  stop(): void;
  /** Answers, and bodies that are kept for review; the latter as of the last sweep. */
  historyBytes(): number;
}

const dayMs = 86_400_000;
/** As long as events stay in the outbox anyway, unless outbox.keep_published_days says otherwise. */
const overdueMs = 7 * dayMs;
/** Of refdata.db, for the bodies of deliveries that have ended. */
const bodyShare = 1 / 8;
/** Where refdata.db is fuller than that, what was delivered is not kept at all: sooner that goes than changes are refused. */
const fullShare = 3 / 4;
/** A start has better things to do. */
const firstSweepMs = 60_000;
const sweepMs = 3_600_000;
const sweepFullMs = 600_000;
/** How often it looks whether a subscription was deleted or answers have come: these may be many MiB within the hour. */
const lookMs = 10_000;
/** Between slices, so that a sweep over a million deliveries takes half a minute and a tenth of the loop at most. */
const sliceMs = 50;
const retryMs = 60_000;

/** Not started yet. */
export function createRetention(options: RetentionOptions): Retention {
  return new HistoryRetention(options);
}

class HistoryRetention implements Retention {
  readonly #o: RetentionOptions;
  readonly #rows: RetentionRows;
  readonly #answers: AnswerLimit;
  readonly #overdue: OverdueBodies;
  #sweep: Sweep | undefined;
  #sweepAtMs = 0;
  #isFull = false;
  #isCut = false;
  #bodyBytes = 0;
  #timer: Timer | undefined;
  #failing = false;
  #state: 'new' | 'running' | 'stopped' = 'new';

  constructor(options: RetentionOptions) {
    const { store, bodies, maxAnswerBytes } = options;
    this.#o = options;
    this.#rows = new RetentionRows(store.connection);
    this.#answers = new AnswerLimit({ store, rows: this.#rows, maxAnswerBytes });
    this.#overdue = new OverdueBodies(store, bodies);
  }

  start(): void {
    if (this.#state !== 'new') return;
    this.#state = 'running';
    this.#sweepAtMs = this.#o.clock.monoMs() + firstSweepMs;
    this.#arm(sliceMs);
  }

  stop(): void {
    this.#state = 'stopped';
    this.#timer?.cancel();
  }

  historyBytes(): number {
    return this.#answers.bytes + this.#bodyBytes;
  }

  #arm(delayMs: number): void {
    if (this.#state === 'running') this.#timer = this.#o.clock.timer(delayMs, () => void this.#step());
  }

  /** Never rejects. */
  async #step(): Promise<void> {
    const { store, logger } = this.#o;
    try {
      const more = await this.#slice();
      if (this.#failing) logger.info('old webhook deliveries can be removed again');
      this.#failing = false;
      this.#arm(more ? sliceMs : lookMs);
    } catch (thrown) {
      if (this.#state !== 'running') return;
      const error = storeFailure(store, thrown);
      if (!this.#failing) logger.warn('old webhook deliveries could not be removed', { error: messageOf(error) });
      this.#failing = true;
      this.#arm(retryMs);
    }
  }

  async #slice(): Promise<boolean> {
    if (await this.#answers.step()) return true;
    this.#sweep ??= this.#begun();
    if (this.#sweep === undefined) return false;
    if (await this.#sweep.step()) return true;
    this.#bodyBytes = this.#sweep.bodyBytes;
    this.#sweep = undefined;
    return false;
  }

  #begun(): Sweep | undefined {
    const { store, clock, onRemoved = () => {} } = this.#o;
    const nowMs = clock.monoMs();
    if (nowMs < this.#sweepAtMs && this.#rows.deletedSubscriptions().length === 0) return undefined;
    const bodies = new BodyLimit(store, this.#looked());
    this.#sweepAtMs = nowMs + (this.#isFull ? sweepFullMs : sweepMs);
    const parts = { store, rows: this.#rows, answers: this.#answers, overdue: this.#overdue, bodies };
    return new Sweep({ ...parts, ages: () => this.#ages(), onRemoved });
  }

  /** Whether there is room; answers how many bytes of bodies are too many, as of the last sweep. */
  #looked(): number {
    const { store, maxBytes, logger } = this.#o;
    const wasFull = this.#isFull;
    this.#isFull = store.health().usedBytes > maxBytes * fullShare;
    if (this.#isFull && !wasFull)
      logger.warn('refdata.db is nearly full: webhook deliveries are not kept once delivered');
    const excess = this.#bodyBytes - maxBytes * bodyShare;
    const wasCut = this.#isCut;
    this.#isCut = excess > 0;
    if (this.#isCut && !wasCut) {
      logger.warn('webhook deliveries for review are too many bytes: the oldest ones lose their bodies', {
        limit: Math.floor(maxBytes * bodyShare),
      });
    }
    return excess;
  }

  #ages(): Ages {
    const { running, keepDeliveredDays, keepFailedDays } = this.#o;
    const runMs = running.now();
    return {
      deliveredBefore: this.#isFull ? runMs : runMs - keepDeliveredDays * dayMs,
      reviewBefore: runMs - keepFailedDays * dayMs,
      dueBefore: runMs - overdueMs,
    };
  }
}

// One walk over all deliveries in slices, removing what is old or of no subscription, and keeping the bodies of what has long been due;
// then the subscriptions and forms it was kept for.

interface SweepOptions {
  readonly store: ChangeStore;
  readonly rows: RetentionRows;
  readonly answers: AnswerLimit;
  readonly overdue: OverdueBodies;
  readonly bodies: BodyLimit;
  /** Asked for each slice. */
  readonly ages: () => Ages;
  /** After each commit that removed deliveries. */
  readonly onRemoved: () => void;
}

/** Deliveries looked at in one turn: less than 2 ms. */
const sliceLooked = 2_000;
/** Forms removed in one transaction. */
const sliceTemplates = 500;

class Sweep {
  readonly #o: SweepOptions;
  /** Subscriptions that were deleted when it began: behind its end they have no deliveries. */
  readonly #deleted: readonly number[];
  /** Forms that no subscription had when it began, less those of deliveries it came by: of none, when it has ended. */
  readonly #templates: Set<number>;
  #after = 0;
  #walked = false;
  #bodyBytes = 0;

  constructor(options: SweepOptions) {
    this.#o = options;
    this.#deleted = options.rows.deletedSubscriptions();
    this.#templates = new Set(options.rows.unusedTemplates());
  }

  /** Of the bodies it came by. */
  get bodyBytes(): number {
    return this.#bodyBytes;
  }

  /** A bounded piece of work. True: there is more to do. After a failure it goes on where it was. */
  async step(): Promise<boolean> {
    if (!this.#walked) {
      await this.#slice();
      return true;
    }
    if (await this.#removeTemplates()) return true;
    const { store, rows } = this.#o;
    if (this.#deleted.length > 0) await store.maintain(() => rows.removeSubscriptions(this.#deleted));
    return false;
  }

  async #slice(): Promise<void> {
    const { store, rows, answers, overdue, bodies, ages, onRemoved } = this.#o;
    const end = rows.sliceEnd(this.#after, sliceLooked);
    let slice = { after: this.#after, upTo: end ?? Number.MAX_SAFE_INTEGER };
    let isWhole = true;
    if (rows.removable(slice, ages()).ids.length > 0) {
      // Looked at again inside the transaction: while it waited for its turn one may have been sent again.
      const { ids, whole, bytes } = await store.maintain(() => {
        const found = rows.removable(slice, ages());
        return { ...found, bytes: rows.remove(found.ids, answers.countedTo) };
      });
      answers.removed(bytes);
      isWhole = whole;
      if (ids.length > 0) onRemoved();
      if (!whole) slice = { ...slice, upTo: ids.at(-1) ?? slice.after };
    }
    const upTo = Math.min(await overdue.keep(slice, ages().dueBefore), await bodies.cut(slice));
    if (upTo < slice.upTo) {
      isWhole = false;
      slice = { ...slice, upTo };
    }
    for (const template of rows.templates(slice)) this.#templates.delete(template);
    this.#bodyBytes += rows.bodyBytes(slice);
    if (isWhole && end === undefined) this.#walked = true;
    else this.#after = slice.upTo;
  }

  /** Deliveries that have come since the walk's last slice may have one of these forms. */
  async #removeTemplates(): Promise<boolean> {
    if (this.#templates.size === 0) return false;
    const { store, rows } = this.#o;
    const some = [...this.#templates].slice(0, sliceTemplates);
    await store.maintain(() => rows.removeTemplates(some, this.#after));
    for (const template of some) this.#templates.delete(template);
    return this.#templates.size > 0;
  }
}

// Brings the bodies that are kept of ended deliveries back within so many bytes in all, the oldest first: a subscriber that
// refuses everything for weeks must not fill refdata.db. Whose body has gone can be sent again while its events are kept.

interface Kept {
  readonly id: number;
  readonly bytes: number;
}

/** Removed in one transaction: of 100 KiB each, as those of large imports are, some 6 MiB. */
const sliceRemoved = 64;

class BodyLimit {
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
