/** Writes results in batches, one transaction each. What cannot be written (a full disk, an I/O error) is kept and retried. */
import type { Clock } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { FailureLog, Loop } from '../../shared/base/loop.ts';

interface BatchWriterOptions<T> {
  /** For the log: "acknowledgements". */
  readonly what: string;
  /** A transaction blocks the event loop: as many as take about 10 ms. */
  readonly maxBatch: number;
  readonly longestRetryMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Of two items with one key the newer is written. */
  readonly keyOf: (item: T) => unknown;
  /** How long pending items wait for others; 0 or less: for those that are added in the same step. */
  readonly delayMs: (count: number, pending: ReadonlyMap<unknown, T>) => number;
  /** One transaction: resolves when all of it is committed, rejects when nothing of it is. */
  readonly write: (batch: readonly T[]) => Promise<void>;
}

/** Between passes that have nothing to write. */
const idleMs = 60_000;

export class BatchWriter<T> {
  readonly #o: BatchWriterOptions<T>;
  readonly #pending = new Map<unknown, T>();
  readonly #failures: FailureLog;
  readonly #loop: Loop;

  constructor(options: BatchWriterOptions<T>) {
    const { what, longestRetryMs: retryMaxMs, clock, logger } = options;
    this.#o = options;
    this.#failures = new FailureLog(logger, `${what} could not be stored`, `${what} can be stored again`);
    this.#loop = new Loop({ pass: () => this.#pass(), failures: this.#failures, clock, retryMaxMs });
  }

  get pending(): number {
    return this.#pending.size;
  }

  add(item: T): void {
    this.#pending.set(this.#o.keyOf(item), item);
    this.#loop.start(idleMs);
    this.#loop.wake(this.#delayMs());
  }

  /** What delayMs depends on has changed: pending items may be written earlier. */
  hasten(): void {
    if (this.#pending.size > 0) this.#loop.wake(this.#delayMs());
  }

  /** Writes what is pending. Never rejects: after a failure the rest stays unwritten. */
  async stop(): Promise<void> {
    await this.#loop.stop();
    try {
      while (this.#pending.size > 0) await this.#flush();
    } catch (error) {
      this.#failures.failed(messageOf(error));
    }
  }

  #delayMs(): number {
    return Math.max(0, this.#o.delayMs(this.#pending.size, this.#pending));
  }

  async #pass(): Promise<number> {
    if (this.#pending.size > 0) await this.#flush();
    return this.#pending.size > 0 ? this.#delayMs() : idleMs;
  }

  async #flush(): Promise<void> {
    const { maxBatch, write } = this.#o;
    const batch = [...this.#pending].slice(0, maxBatch);
    for (const [key] of batch) this.#pending.delete(key);
    try {
      await write(batch.map(([, item]) => item));
    } catch (error) {
      for (const [key, item] of batch) if (!this.#pending.has(key)) this.#pending.set(key, item);
      throw error;
    }
  }
}
