/** Removes published rows some days after, in slices that hold neither the loop nor a change. */
import type { Clock, Timer } from '../../../shared/base/clock.ts';
import { messageOf } from '../../../shared/base/errors.ts';
import { instantOfMs } from '../../../shared/base/instant.ts';
import type { Logger } from '../../../shared/base/logger.ts';
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
  #timer: Timer | undefined;
  #after = 0;
  #stopped = false;

  constructor(options: PrunerOptions) {
    this.#o = options;
  }

  start(): void {
    this.#arm(sliceMs);
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  #arm(delayMs: number): void {
    if (this.#stopped) return;
    this.#timer = this.#o.clock.timer(delayMs, () => void this.#step());
  }

  async #step(): Promise<void> {
    let more = false;
    try {
      more = await this.#slice();
    } catch (error) {
      if (!this.#stopped) this.#o.logger.warn('old outbox rows could not be removed', { error: messageOf(error) });
    }
    if (!more) this.#after = 0;
    this.#arm(more ? sliceMs : sweepMs);
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
