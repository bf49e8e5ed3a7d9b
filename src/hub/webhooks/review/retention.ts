/**
 * Removes deliveries some days after they ended, those of deleted subscriptions, and the oldest answers where all of them
 * are too many bytes; in slices that hold neither the loop nor a change. By running time alone: the wall clock may jump by
 * years, and no history goes for that. What waits stays, however long; history never takes the room of changes.
 */
import { FailureLog, Loop } from '../../../shared/base/loop.ts';
import type { WebhookParts } from '../parts.ts';
import type { RunningTime } from '../progress.ts';
import { storeFailure } from '../storage-failure.ts';
import { type Ages, AnswerLimit, HistoryRows, type Slice } from './history.ts';

export interface RetentionOptions extends Omit<WebhookParts, 'cache' | 'running'> {
  readonly running: Pick<RunningTime, 'now'>;
  readonly keepDeliveredDays: number;
  /** Of rejected and failed ones. */
  readonly keepFailedDays: number;
  /** Of all answers; beyond it the oldest go. */
  readonly maxAnswerBytes: number;
  /** Of refdata.db (outbox.max_bytes): shares of it bound the history. */
  readonly maxBytes: number;
  /** Committed: deliveries were removed. */
  readonly onRemoved: () => void;
}

const dayMs = 86_400_000;
/** As long as events stay in the outbox anyway, unless outbox.keep_published_days says otherwise. */
const overdueMs = 7 * dayMs;
/** Of refdata.db, for the bodies of deliveries that have ended. */
const bodyShare = 1 / 8;
/** Where refdata.db is fuller than that, what was delivered is not kept at all: sooner that goes than changes are refused. */
const fullShare = 3 / 4;
/** A start has more urgent work. */
const firstSweepMs = 60_000;
const sweepMs = 3_600_000;
const sweepFullMs = 600_000;
/** How often it looks whether a subscription was deleted or answers have come: these may be many MiB within the hour. */
const lookMs = 10_000;
/** Between slices, so that a sweep over a million deliveries takes half a minute and a tenth of the loop at most. */
const sliceMs = 50;
const retryMs = 60_000;

export class Retention {
  readonly #o: RetentionOptions;
  readonly #rows: HistoryRows;
  readonly #answers: AnswerLimit;
  #sweep: Sweep | undefined;
  #sweepAtMs = 0;
  #isFull = false;
  #isCut = false;
  #bodyBytes = 0;
  readonly #loop: Loop;

  /** Not started yet. */
  constructor(options: RetentionOptions) {
    const { store, maxAnswerBytes, clock, logger } = options;
    this.#o = options;
    this.#loop = new Loop({
      pass: () => this.#pass(),
      failures: new FailureLog(
        logger,
        'old webhook deliveries could not be removed',
        'old webhook deliveries can be removed again',
      ),
      clock,
      retryFirstMs: retryMs,
    });
    this.#rows = new HistoryRows(store.connection);
    this.#answers = new AnswerLimit(store, this.#rows, maxAnswerBytes);
  }

  start(): void {
    this.#sweepAtMs = this.#o.clock.monoMs() + firstSweepMs;
    this.#loop.start(sliceMs);
  }

  /** A slice that is under way ends first. */
  stop(): Promise<void> {
    return this.#loop.stop();
  }

  /** Answers, and bodies that are kept for review; the latter as of the last sweep. */
  historyBytes(): number {
    return this.#answers.bytes + this.#bodyBytes;
  }

  async #pass(): Promise<number> {
    try {
      return (await this.#slice()) ? sliceMs : lookMs;
    } catch (error) {
      throw storeFailure(this.#o.store, error);
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
    const nowMs = this.#o.clock.monoMs();
    if (nowMs < this.#sweepAtMs && this.#rows.sql.deletedSubscriptions.all().length === 0) return undefined;
    const excess = this.#excess();
    this.#sweepAtMs = nowMs + (this.#isFull ? sweepFullMs : sweepMs);
    const parts = { rows: this.#rows, answers: this.#answers, ages: () => this.#ages() };
    return new Sweep({ ...this.#o, ...parts }, excess);
  }

  /** Whether there is room; answers how many bytes of bodies are too many, as of the last sweep. */
  #excess(): number {
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

interface SweepOptions extends Pick<RetentionOptions, 'store' | 'bodies' | 'onRemoved'> {
  readonly rows: HistoryRows;
  readonly answers: AnswerLimit;
  /** Asked for each slice. */
  readonly ages: () => Ages;
}

/** Deliveries read in one turn: less than 2 ms. */
const sliceLooked = 2_000;
/** Body templates removed in one transaction. */
const sliceTemplates = 500;
/** Bodies removed in one transaction: of 100 KiB each, as those of large imports are, some 6 MiB. */
const sliceBodies = 64;
/** Bodies kept in one transaction; to make and deflate 1 MiB takes some 30 ms. */
const sliceOverdue = 64;
const sliceBodyBytes = 1024 * 1024;

/**
 * One walk over all deliveries in slices, removing what is old or of no subscription, and keeping the bodies of what has long
 * been due; then the subscriptions and body templates it was kept for.
 */
class Sweep {
  readonly #o: SweepOptions;
  /** Subscriptions that were deleted when it began: behind its end they have no deliveries. */
  readonly #deleted: readonly number[];
  /** Body templates that no subscription had when it began, less those of deliveries it came by: of none, when it has ended. */
  readonly #templates: Set<number>;
  /** Bytes of bodies that are still to be removed. */
  #excess: number;
  #after = 0;
  #walked = false;
  #bodyBytes = 0;

  constructor(options: SweepOptions, excess: number) {
    this.#o = options;
    this.#excess = excess;
    this.#deleted = options.rows.sql.deletedSubscriptions.all();
    this.#templates = new Set(options.rows.sql.unusedTemplates.all());
  }

  /** Of the bodies it came by. */
  get bodyBytes(): number {
    return this.#bodyBytes;
  }

  /** A bounded piece of work. True: there is more to do. After a failure it resumes where it was. */
  async step(): Promise<boolean> {
    if (!this.#walked) {
      await this.#slice();
      return true;
    }
    if (await this.#removeTemplates()) return true;
    const { store, rows } = this.#o;
    if (this.#deleted.length > 0)
      await store.maintain(() => rows.sql.removeSubscriptions.run(JSON.stringify(this.#deleted)));
    return false;
  }

  async #slice(): Promise<void> {
    const { store, rows, answers, ages, onRemoved } = this.#o;
    const end = rows.sql.sliceEnd.get(this.#after, sliceLooked - 1);
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
    const upTo = Math.min(await this.#keepOverdue(slice), await this.#cutBodies(slice));
    if (upTo < slice.upTo) {
      isWhole = false;
      slice = { ...slice, upTo };
    }
    for (const template of rows.sql.templates.all(slice)) this.#templates.delete(template);
    this.#bodyBytes += rows.sql.bodyBytes.get(slice) ?? 0;
    if (isWhole && end === undefined) this.#walked = true;
    else this.#after = slice.upTo;
  }

  /**
   * Keeps the bodies of deliveries that have been due for long, as a paused or blocked subscription's are: else one of them
   * would keep every later event of the device in the outbox, up to its budget. Bodies of events that the outbox keeps for
   * the broker anyway are not kept. Answers up to which delivery of the slice it is done.
   */
  async #keepOverdue(slice: Slice): Promise<number> {
    const { store, rows, bodies, ages } = this.#o;
    const parameters = { ...slice, dueBefore: ages().dueBefore, limit: sliceOverdue };
    if (rows.sql.overdue.get(parameters) === undefined) return slice.upTo;
    return store.maintain(() => {
      const found = rows.sql.overdue.all(parameters);
      let bytes = 0;
      for (const delivery of found) {
        // One that cannot be made has nothing to keep; its attempt will report it.
        bytes += bodies.keep(delivery);
        if (bytes >= sliceBodyBytes) return delivery.id;
      }
      return found.length < sliceOverdue ? slice.upTo : (found.at(-1)?.id ?? slice.upTo);
    });
  }

  /**
   * Brings the bodies that are kept of ended deliveries back within their limit, the oldest first: a subscriber that refuses
   * everything for weeks must not fill refdata.db. Whose body has gone can be sent again while its events are kept. Answers
   * up to which delivery of the slice it is done.
   */
  async #cutBodies(slice: Slice): Promise<number> {
    const { store, rows } = this.#o;
    if (this.#excess <= 0 || rows.sql.bodies.get({ ...slice, limit: 1 }) === undefined) return slice.upTo;
    const removed: number[] = [];
    let bytes = 0;
    await store.maintain(() => {
      for (const body of rows.sql.bodies.all({ ...slice, limit: sliceBodies })) {
        if (bytes >= this.#excess) break;
        bytes += body.bytes;
        removed.push(body.id);
      }
      rows.sql.removeBodies.run(JSON.stringify(removed));
    });
    this.#excess -= bytes;
    return removed.length < sliceBodies ? slice.upTo : (removed.at(-1) ?? slice.upTo);
  }

  /** Deliveries that have come since the walk's last slice may have one of these templates. */
  async #removeTemplates(): Promise<boolean> {
    if (this.#templates.size === 0) return false;
    const { store, rows } = this.#o;
    const some = [...this.#templates].slice(0, sliceTemplates);
    await store.maintain(() => rows.sql.removeTemplates.run(JSON.stringify(some), this.#after));
    for (const template of some) this.#templates.delete(template);
    return this.#templates.size > 0;
  }
}
