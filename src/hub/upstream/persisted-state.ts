/** What has to outlast the process, and when it goes to the card: the places, the budget, and what was sent before the clock was set. */
import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import { Budget } from './budget.ts';
import type { Positions } from './position-file.ts';
import type { Reading } from './reading.ts';
import { nothingUnset, type SentUnset, sentUnset } from './unset-ranges.ts';
import type { UpstreamStats } from './upstream-stats.ts';

/** The position goes to the card this often at most: 4 KiB each. */
const SAVE_MS = 5_000;
/** While nothing is sent: where the log ends, for the day that it is replaced, and what a connection costs that is kept. */
const SAVE_OTHER_MS = 60_000;
/** A kill between two saves may forget so much of what the budget was charged. */
const UNSAVED_PART = 0.01;

export interface KeepingOptions {
  readonly file: Positions;
  readonly reading: Reading;
  readonly maxBytesPerDay: number;
  readonly stats: UpstreamStats;
  readonly clock: Clock;
}

export class PersistedState {
  readonly #o: KeepingOptions;
  unset: SentUnset = nothingUnset;
  #budget: Budget;
  #isLoaded = false;
  #savedMs = Number.NEGATIVE_INFINITY;
  #unsavedBytes = 0;

  constructor(options: KeepingOptions) {
    this.#o = options;
    this.#budget = new Budget(options.maxBytesPerDay, undefined, options.clock.monoMs());
  }

  get budget(): Budget {
    return this.#budget;
  }

  /** Once. False: it could not be read, and that was said. */
  async load(): Promise<boolean> {
    const { file, reading, maxBytesPerDay, stats, clock } = this.#o;
    try {
      const saved = await file.load();
      this.#budget = new Budget(maxBytesPerDay, saved?.budget, clock.monoMs());
      this.unset = saved?.unset ?? nothingUnset;
      reading.from(saved?.places ?? []);
      this.#isLoaded = true;
    } catch (error) {
      stats.positionFile.failed(messageOf(error));
    }
    return this.#isLoaded;
  }

  /**
   * Before entries are sent that were stamped while the clock was not set: their correction must be sent also when this
   * process is killed right after. One write of 4 KiB for each such batch, until the clock is set.
   */
  async noteUnset(from: Pick<SentUnset, 'logId' | 'bootId'>, ids: readonly number[]): Promise<void> {
    const unset = sentUnset(this.unset, from, ids);
    if (isDeepStrictEqual(unset, this.unset)) return;
    this.unset = unset;
    await this.#save();
  }

  charge(bytes: number, nowMs: number): void {
    this.#budget.charge(bytes, nowMs);
    this.#unsavedBytes += bytes;
  }

  async saveIfDue(): Promise<void> {
    const { limit } = this.#budget;
    const { reading, clock } = this.#o;
    const forced = limit > 0 && this.#unsavedBytes > limit * UNSAVED_PART;
    const agoMs = clock.monoMs() - this.#savedMs;
    const due = agoMs >= SAVE_MS && reading.hasMoved;
    const other = reading.hasGrown || this.#unsavedBytes > 0;
    if (forced || due || (agoMs >= SAVE_OTHER_MS && other)) await this.#save();
  }

  /** Saves it for the last time. */
  async close(): Promise<void> {
    if (this.#isLoaded) await this.#save();
    await this.#o.file.close();
  }

  async #save(): Promise<void> {
    const { file, reading, stats, clock } = this.#o;
    reading.takeMoved();
    this.#savedMs = clock.monoMs();
    this.#unsavedBytes = 0;
    try {
      const budget = this.#budget.save(this.#savedMs);
      await file.save({ places: reading.places.all, budget, unset: this.unset });
      stats.positionFile.recovered();
    } catch (error) {
      reading.unsaved();
      stats.positionFile.failed(messageOf(error));
    }
  }
}
