/**
 * Removes deliveries some days after they ended, those of deleted subscriptions, and the oldest answers where all of them
 * are too many bytes; in slices that hold neither the loop nor a change. By running time alone: the wall clock may jump by
 * years, and no history goes for that. What waits stays, however long; history never takes the room of changes.
 */
import type { Clock, Timer } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import type { ChangeStore } from '../outbox/change-store.ts';
import { AnswerLimit } from './answer-limit.ts';
import { BodyLimit } from './body-limit.ts';
import type { Bodies } from './body-made.ts';
import { LongDue } from './long-due.ts';
import { storeFailure } from './readable.ts';
import { type Ages, RetentionRows } from './retention-rows.ts';
import type { RunningTime } from './running-time.ts';
import { Sweep } from './sweep.ts';

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
const longDueMs = 7 * dayMs;
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
  return new Keeper(options);
}

class Keeper implements Retention {
  readonly #o: RetentionOptions;
  readonly #rows: RetentionRows;
  readonly #answers: AnswerLimit;
  readonly #longDue: LongDue;
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
    this.#longDue = new LongDue(store, bodies);
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
    const parts = { store, rows: this.#rows, answers: this.#answers, longDue: this.#longDue, bodies };
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
      dueBefore: runMs - longDueMs,
    };
  }
}
