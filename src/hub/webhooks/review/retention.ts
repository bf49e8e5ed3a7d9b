/**
 * Removes deliveries some days after their end, those of deleted subscriptions, and the oldest answers beyond their limit, in
 * slices that block neither the event loop nor a change. Ages are running time: the wall clock may jump by years. Waiting
 * deliveries are never removed; history never takes the space of changes.
 */
import { FailureLog, Loop } from '../../../shared/base/loop.ts';
import type { ChangeStore } from '../../outbox/change-store.ts';
import type { WebhookParts } from '../parts.ts';
import type { RunningTime } from '../progress.ts';
import { type Ages, HistoryRows, type Slice } from './review-rows.ts';

export interface RetentionOptions extends Omit<WebhookParts, 'cache' | 'running'> {
  readonly running: Pick<RunningTime, 'now'>;
  readonly keepDeliveredDays: number;
  /** Of rejected and failed ones. */
  readonly keepFailedDays: number;
  readonly maxAnswerBytes: number;
  /** Of refdata.db (outbox.max_bytes): shares of it bound the history. */
  readonly maxBytes: number;
  /** Called after the commit. */
  readonly onRemoved: () => void;
}

const dayMs = 86_400_000;
/** The default of outbox.keep_published_days. */
const overdueMs = 7 * dayMs;
/** Of refdata.db, for the bodies of ended deliveries. */
const bodyShare = 1 / 8;
/** When refdata.db is fuller, delivered deliveries are removed at once, before changes must be refused. */
const fullShare = 3 / 4;
/** After the start, which has more urgent work. */
const firstSweepMs = 60_000;
const sweepMs = 3_600_000;
const sweepFullMs = 600_000;
/** Polling interval for deleted subscriptions and new answers, which may be many MiB within an hour. */
const pollMs = 10_000;
/** Between slices: a sweep over a million deliveries takes half a minute and at most a tenth of the event loop. */
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

  stop(): Promise<void> {
    return this.#loop.stop();
  }

  /** Of answers, and of the bodies kept for review as of the last sweep. */
  historyBytes(): number {
    return this.#answers.bytes + this.#bodyBytes;
  }

  async #pass(): Promise<number> {
    try {
      return (await this.#slice()) ? sliceMs : pollMs;
    } catch (error) {
      throw this.#o.store.failure(error);
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

  /** Bytes of bodies above their limit, as of the last sweep. Also checks how full refdata.db is. */
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
  readonly ages: () => Ages;
}

/** Deliveries read in one slice: less than 2 ms. */
const sliceRows = 2_000;
/** Body templates removed in one transaction. */
const sliceTemplates = 500;
/** Bodies removed in one transaction: with 100 KiB each, as after a large import, some 6 MiB. */
const sliceBodies = 64;
/** Bodies kept in one transaction: rendering and deflating 1 MiB takes some 30 ms. */
const sliceOverdue = 64;
const sliceBodyBytes = 1024 * 1024;

/**
 * One pass over all deliveries in slices: removes old ones and those of deleted subscriptions, keeps the bodies of overdue
 * ones; then removes the deleted subscriptions and unused body templates.
 */
class Sweep {
  readonly #o: SweepOptions;
  /** Subscriptions deleted before the sweep: after it they have no deliveries. */
  readonly #deleted: readonly number[];
  /** Body templates without a subscription at the start, less those of deliveries seen since: at the end, unused ones. */
  readonly #templates: Set<number>;
  /** Bytes of bodies still to remove. */
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

  /** Of the bodies seen. */
  get bodyBytes(): number {
    return this.#bodyBytes;
  }

  /** A bounded step. True: there is more to do. After a failure it resumes where it was. */
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
    const end = rows.sql.sliceEnd.get(this.#after, sliceRows - 1);
    let slice = { after: this.#after, upTo: end ?? Number.MAX_SAFE_INTEGER };
    let isWhole = true;
    if (rows.removable(slice, ages()).ids.length > 0) {
      // Read again inside the transaction: a delivery may have been resent while this commit waited.
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
   * Keeps the bodies of overdue deliveries, as those of a paused or blocked subscription: else one of them would keep every
   * later event in the outbox, up to its budget. Not while the outbox keeps their events for the broker anyway. Answers the
   * last delivery of the slice that is done.
   */
  async #keepOverdue(slice: Slice): Promise<number> {
    const { store, rows, bodies, ages } = this.#o;
    const parameters = { ...slice, dueBefore: ages().dueBefore, limit: sliceOverdue };
    if (rows.sql.overdue.get(parameters) === undefined) return slice.upTo;
    return store.maintain(() => {
      const found = rows.sql.overdue.all(parameters);
      let bytes = 0;
      for (const delivery of found) {
        // A body that cannot be rendered is reported by the delivery's attempt.
        bytes += bodies.keep(delivery);
        if (bytes >= sliceBodyBytes) return delivery.id;
      }
      return found.length < sliceOverdue ? slice.upTo : (found.at(-1)?.id ?? slice.upTo);
    });
  }

  /**
   * Removes the oldest bodies of ended deliveries beyond their limit: a subscriber that refuses everything for weeks must not
   * fill refdata.db. Such a delivery can be resent while its events are kept. Answers the last delivery that is done.
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

  /** Except templates of deliveries that came after the last slice. */
  async #removeTemplates(): Promise<boolean> {
    if (this.#templates.size === 0) return false;
    const { store, rows } = this.#o;
    const some = [...this.#templates].slice(0, sliceTemplates);
    await store.maintain(() => rows.sql.removeTemplates.run(JSON.stringify(some), this.#after));
    for (const template of some) this.#templates.delete(template);
    return this.#templates.size > 0;
  }
}

/** Lengths read in one step: some 2 ms. */
const sliceCounted = 2_000;
/** Removed in one transaction: some 2 MiB. */
const sliceAnswers = 500;

/** Keeps all answers together within a number of bytes: removes the oldest, without their attempts. */
class AnswerLimit {
  readonly #store: ChangeStore;
  readonly #sql: HistoryRows['sql'];
  readonly #maxBytes: number;
  #bytes = 0;
  #countedTo = 0;

  constructor(store: ChangeStore, { sql }: HistoryRows, maxBytes: number) {
    this.#store = store;
    this.#sql = sql;
    this.#maxBytes = maxBytes;
  }

  /** Of all answers up to id countedTo. */
  get bytes(): number {
    return this.#bytes;
  }

  get countedTo(): number {
    return this.#countedTo;
  }

  /** Counted answers of so many bytes were removed with their deliveries. */
  removed(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** A bounded step: counts new answers, then removes the excess. True: there is more to do. */
  async step(): Promise<boolean> {
    if (this.#count()) return true;
    if (this.#bytes <= this.#maxBytes) return false;
    const oldest = this.#sql.answers.all(0, sliceAnswers);
    let left = oldest.length === 0 ? 0 : this.#bytes;
    let upTo = 0;
    for (const { id, bytes } of oldest) {
      if (left <= this.#maxBytes) break;
      left -= bytes;
      upTo = id;
    }
    await this.#store.maintain(() => this.#sql.removeAnswers.run(upTo));
    this.#bytes = left;
    return left > this.#maxBytes;
  }

  #count(): boolean {
    const come = this.#sql.answers.all(this.#countedTo, sliceCounted);
    for (const { bytes } of come) this.#bytes += bytes;
    this.#countedTo = come.at(-1)?.id ?? this.#countedTo;
    return come.length === sliceCounted;
  }
}
