/**
 * Removes deliveries some days after their end, those of deleted subscriptions, and the oldest answers beyond their limit, in
 * slices that block neither the event loop nor a change. Ages are running time: the wall clock may jump by years. Waiting
 * deliveries are never removed; history never takes the space of changes.
 */
import { FailureLog, Loop } from '../../../shared/base/loop.ts';
import type { ChangeStore } from '../../outbox/change-store.ts';
import type { WebhookParts } from '../parts.ts';
import type { RunningTime } from '../progress.ts';
import { type Ages, HistoryRows } from './review-rows.ts';

export interface RetentionOptions extends Omit<WebhookParts, 'cache' | 'rows' | 'running'> {
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
/** Of refdata.db, for the contents of deliveries for review, and again for those of delivered ones. */
const contentShare = 1 / 8;
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
  /** As of the last sweep. */
  #contentBytes: ContentBytes = { delivered: 0, review: 0 };
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

  /** Of answers, and of the contents of ended deliveries as of the last sweep. */
  historyBytes(): number {
    return this.#answers.bytes + this.#contentBytes.delivered + this.#contentBytes.review;
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
    this.#contentBytes = this.#sweep.contentBytes;
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

  /** Bytes of contents above their limits, as of the last sweep. Also checks how full refdata.db is. */
  #excess(): ContentBytes {
    const { store, maxBytes, logger } = this.#o;
    const wasFull = this.#isFull;
    this.#isFull = store.health().usedBytes > maxBytes * fullShare;
    if (this.#isFull && !wasFull)
      logger.warn('refdata.db is nearly full: webhook deliveries are not kept once delivered');
    const limit = Math.floor(maxBytes * contentShare);
    const { delivered, review } = this.#contentBytes;
    const wasCut = this.#isCut;
    this.#isCut = review > limit;
    if (this.#isCut && !wasCut) {
      logger.warn('webhook deliveries for review are too many bytes: the oldest ones lose their bodies', { limit });
    }
    return { delivered: delivered - limit, review: review - limit };
  }

  #ages(): Ages {
    const { running, keepDeliveredDays, keepFailedDays } = this.#o;
    const runMs = running.now();
    return {
      deliveredBefore: this.#isFull ? runMs : runMs - keepDeliveredDays * dayMs,
      reviewBefore: runMs - keepFailedDays * dayMs,
    };
  }
}

interface ContentBytes {
  /** Of contents whose deliveries were all delivered. */
  readonly delivered: number;
  /** Of contents with rejected or failed deliveries. */
  readonly review: number;
}

interface SweepOptions extends Pick<RetentionOptions, 'store' | 'onRemoved'> {
  readonly rows: HistoryRows;
  readonly answers: AnswerLimit;
  readonly ages: () => Ages;
}

/** Rows read in one slice: some 2 ms. */
const sliceRows = 2_000;
/** Bodies removed in one transaction: with 100 KiB each, as after a large import, some 6 MiB. */
const sliceBodies = 64;

/**
 * One pass in slices: removes old deliveries and those of deleted subscriptions; then the oldest contents beyond their limits
 * (a subscriber that refuses everything for weeks must not fill refdata.db); then the deleted subscriptions.
 */
class Sweep {
  readonly #o: SweepOptions;
  /** Subscriptions deleted before the sweep: after it they have no deliveries. */
  readonly #deleted: readonly number[];
  /** Bytes still to remove. */
  #excess: ContentBytes;
  /** Of the contents left. */
  contentBytes: ContentBytes = { delivered: 0, review: 0 };
  #phase: 'deliveries' | 'contents' | 'subscriptions' = 'deliveries';
  #after = 0;

  constructor(options: SweepOptions, excess: ContentBytes) {
    this.#o = options;
    this.#excess = excess;
    this.#deleted = options.rows.sql.deletedSubscriptions.all();
  }

  /** A bounded step. True: there is more to do. After a failure it resumes where it was. */
  async step(): Promise<boolean> {
    if (this.#phase === 'deliveries') await this.#removeOld();
    else if (this.#phase === 'contents') await this.#limitContents();
    else {
      const { store, rows } = this.#o;
      const deleted = JSON.stringify(this.#deleted);
      if (this.#deleted.length > 0) await store.maintain(() => rows.sql.removeSubscriptions.run(deleted));
      return false;
    }
    return true;
  }

  async #removeOld(): Promise<void> {
    const { store, rows, answers, ages, onRemoved } = this.#o;
    const end = rows.sql.sliceEnd.get(this.#after, sliceRows - 1);
    const slice = { after: this.#after, upTo: end ?? Number.MAX_SAFE_INTEGER };
    if (rows.removable(slice, ages()).found.length === 0) return this.#passed(end, 'contents');
    // Read again inside the transaction: a delivery may have been resent while this commit waited.
    const { found, whole, bytes } = await store.maintain(() => {
      const removable = rows.removable(slice, ages());
      return { ...removable, bytes: rows.remove(removable.found, answers.countedTo) };
    });
    answers.bytes -= bytes;
    if (found.length > 0) onRemoved();
    if (whole) this.#passed(end, 'contents');
    else this.#after = found.at(-1)?.id ?? this.#after;
  }

  /** Such a delivery stays in the list, without its events, and cannot be resent. */
  async #limitContents(): Promise<void> {
    const { store, rows } = this.#o;
    let end = rows.sql.contentsEnd.get(this.#after, sliceRows - 1);
    const left = { ...this.#excess };
    const bytes = { ...this.contentBytes };
    const removed: number[] = [];
    const slice = { after: this.#after, upTo: end ?? Number.MAX_SAFE_INTEGER };
    for (const content of rows.sql.endedContents.iterate(slice)) {
      const kind = content.isForReview === 1 ? 'review' : 'delivered';
      if (left[kind] <= 0) bytes[kind] += content.bytes;
      else if (removed.push(content.id) === sliceBodies) end = content.id;
      left[kind] -= content.bytes;
      if (end === content.id) break;
    }
    if (removed.length > 0) await store.maintain(() => rows.sql.removeBodies.run(JSON.stringify(removed)));
    this.#excess = left;
    this.contentBytes = bytes;
    this.#passed(end, 'subscriptions');
  }

  /** `end`: of the slice; undefined: it was the last. */
  #passed(end: number | undefined, next: 'contents' | 'subscriptions'): void {
    this.#after = end ?? 0;
    if (end === undefined) this.#phase = next;
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
  /** Of all answers up to id countedTo. */
  bytes = 0;
  countedTo = 0;

  constructor(store: ChangeStore, { sql }: HistoryRows, maxBytes: number) {
    this.#store = store;
    this.#sql = sql;
    this.#maxBytes = maxBytes;
  }

  /** A bounded step: counts new answers, then removes the excess. True: there is more to do. */
  async step(): Promise<boolean> {
    if (this.#count()) return true;
    if (this.bytes <= this.#maxBytes) return false;
    const oldest = this.#sql.answers.all(0, sliceAnswers);
    let left = oldest.length === 0 ? 0 : this.bytes;
    let upTo = 0;
    for (const { id, bytes } of oldest) {
      if (left <= this.#maxBytes) break;
      left -= bytes;
      upTo = id;
    }
    await this.#store.maintain(() => this.#sql.removeAnswers.run(upTo));
    this.bytes = left;
    return left > this.#maxBytes;
  }

  #count(): boolean {
    const come = this.#sql.answers.all(this.countedTo, sliceCounted);
    for (const { bytes } of come) this.bytes += bytes;
    this.countedTo = come.at(-1)?.id ?? this.countedTo;
    return come.length === sliceCounted;
  }
}
