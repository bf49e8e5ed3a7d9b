/** Removes published rows some days after, in slices that hold neither the loop nor a change. */
import type { Clock } from '../../../shared/base/clock.ts';
import { instantOfMs } from '../../../shared/base/instant.ts';
import type { Logger } from '../../../shared/base/logger.ts';
import { FailureLog, Loop } from '../../../shared/base/loop.ts';
import type { ChangeStore } from '../change-store.ts';
import type { WaitingRows } from './waiting-rows.ts';

export interface PrunerOptions {
  readonly store: ChangeStore;
  readonly rows: WaitingRows;
  readonly keepPublishedDays: number;
  /** No row above this is removed, however old: another part still reads it. Default: none does. */
  readonly keepAbove?: (() => number) | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

const dayMs = 86_400_000;
/** A sweep reads the whole table, a million rows in some 2 s: an hour is often enough for days, and seldom enough for that. */
const sweepMs = 3_600_000;
/** Between slices, so that a sweep takes a tenth of the loop at most. */
const sliceMs = 50;

export class Pruner {
  readonly #o: PrunerOptions;
  readonly #loop: Loop;
  #after = 0;

  constructor(options: PrunerOptions) {
    const { clock, logger } = options;
    this.#o = options;
    const failures = new FailureLog(
      logger,
      'old outbox rows could not be removed',
      'old outbox rows can be removed again',
    );
    this.#loop = new Loop({ pass: () => this.#pass(), failures, clock, retryFirstMs: sweepMs, retryMaxMs: sweepMs });
  }

  start(): void {
    this.#loop.start(sliceMs);
  }

  stop(): void {
    void this.#loop.stop();
  }

  async #pass(): Promise<number> {
    if (await this.#slice()) return sliceMs;
    this.#after = 0;
    return sweepMs;
  }

  /** True: there are rows behind this slice. The wall clock is good enough: the rows have reached the broker. */
  async #slice(): Promise<boolean> {
    const { store, rows, clock, keepPublishedDays } = this.#o;
    const end = rows.sliceEnd(this.#after);
    if (end === undefined) return false;
    const before = instantOfMs(clock.wallMs() - keepPublishedDays * dayMs);
    const slice = { after: this.#after, upTo: this.#free(end), before };
    if (slice.upTo > slice.after) {
      if (rows.hasOld(slice)) {
        // Asked again inside the transaction: while it waited for its turn others may have come to need more.
        await store.maintain(() => rows.removeOld({ ...slice, upTo: this.#free(slice.upTo) }));
      }
      this.#after = slice.upTo;
    }
    // The part that needs the rest may still be finding out what it needs: then it is less each time, and an hour is too long.
    return this.#after === end || this.#free(end) > slice.upTo;
  }

  #free(upTo: number): number {
    return Math.min(upTo, this.#o.keepAbove?.() ?? upTo);
  }
}
