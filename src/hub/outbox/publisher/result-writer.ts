/**
 * What the broker's answers change in the outbox, written in batches: one transaction for each burst of reports. What
 * cannot be written (a full disk) is kept and tried again; its rows are not sent again meanwhile.
 */
import type { Clock } from '../../../shared/base/clock.ts';
import { messageOf } from '../../../shared/base/errors.ts';
import { instantOfMs } from '../../../shared/base/instant.ts';
import type { Logger } from '../../../shared/base/logger.ts';
import type { Audit, ChangeStore } from '../change-store.ts';
import type { RowUpdate } from './publish-scheduler.ts';
import type { WaitingRows } from './waiting-rows.ts';

export interface ResultWriterOptions {
  readonly store: ChangeStore;
  readonly rows: WaitingRows;
  readonly clock: Clock;
  readonly logger: Logger;
  /** So much is on its way that the line to the broker stays busy without what is still to be written. */
  readonly isBusy: () => boolean;
  /** Committed: the ids whose outcome was final, and how many rows do not wait any more. */
  readonly onWritten: (ids: readonly number[], left: number) => void;
}

/** A transaction holds the loop: 2,000 marks are some 10 ms. */
const batchUpdates = 2_000;
/** On a slow card the next batch waits as long as the last one took, but never longer. */
const longestRestMs = 250;
/** With much on its way nothing waits for a mark, and each transaction is an fsync: so long the next one collects. */
const busyRestMs = 20;

export class ResultWriter {
  readonly #o: ResultWriterOptions;
  /** By row, the newest word about it: while nothing can be stored a refused row is refused again each minute. */
  readonly #pending = new Map<number, RowUpdate>();
  #running: Promise<void> | undefined;
  #asked = false;
  #restUntilMs = 0;
  #failing = false;
  publishedTotal = 0;

  constructor(options: ResultWriterOptions) {
    this.#o = options;
  }

  add(write: RowUpdate): void {
    this.#pending.set(write.id, write);
    if (!this.#failing) this.#ask();
  }

  /** Each second: what failed is tried again. */
  retry(): void {
    if (this.#pending.size > 0) this.#ask();
  }

  /** Writes what is there; what fails now is sent again by the next process. */
  async stop(): Promise<void> {
    await this.#running;
    do await this.#flush();
    while (this.#pending.size > 0 && !this.#failing);
  }

  #ask(): void {
    if (this.#asked || this.#running !== undefined) return;
    this.#asked = true;
    const restMs = this.#restUntilMs - this.#o.clock.monoMs();
    const go = (): void => {
      this.#asked = false;
      this.#running ??= this.#flush().finally(() => {
        this.#running = undefined;
        if (this.#pending.size > 0 && !this.#failing) this.#ask();
      });
    };
    // After the reports that came together.
    if (restMs > 0) this.#o.clock.timer(restMs, go);
    else setImmediate(go);
  }

  /** Never rejects. */
  async #flush(): Promise<void> {
    const batch = this.#take();
    if (batch.length === 0) return;
    const { store, clock, logger, onWritten } = this.#o;
    try {
      const began = clock.monoMs();
      const written = store.maintain((audit) => this.#write(batch, audit));
      // What is not held up by an import has run by now.
      const tookMs = clock.monoMs() - began;
      const restMs = Math.max(tookMs, this.#o.isBusy() ? busyRestMs : 0);
      this.#restUntilMs = began + tookMs + Math.min(restMs, longestRestMs);
      const left = await written;
      if (this.#failing) logger.info('acknowledgements can be stored again');
      this.#failing = false;
      const published = batch.filter(({ kind }) => kind === 'published').length;
      this.publishedTotal += published;
      onWritten(
        batch.filter(({ kind }) => kind !== 'attempt').map(({ id }) => id),
        left,
      );
    } catch (error) {
      for (const write of batch) if (!this.#pending.has(write.id)) this.#pending.set(write.id, write);
      if (!this.#failing) logger.warn('acknowledgements could not be stored', { error: messageOf(error) });
      this.#failing = true;
    }
  }

  #take(): RowUpdate[] {
    const batch: RowUpdate[] = [];
    for (const [id, write] of this.#pending) {
      if (batch.length >= batchUpdates) break;
      batch.push(write);
      this.#pending.delete(id);
    }
    return batch;
  }

  /** Updates that are still to be stored: bounded by the head rows. */
  get kept(): number {
    return this.#pending.size;
  }

  #write(batch: readonly RowUpdate[], audit: Audit): number {
    const { rows, clock, store } = this.#o;
    const published = batch.filter(({ kind }) => kind === 'published').map(({ id }) => id);
    let left = rows.markPublished(published, instantOfMs(clock.wallMs()));
    for (const write of batch) {
      if (write.kind === 'attempt') rows.markAttempt(write.id, write.attempts, write.reason);
      if (write.kind !== 'dead') continue;
      const { id, attempts, reason, topic, key } = write;
      const at = store.now();
      if (!rows.markDead(id, attempts, reason, at)) continue;
      left++;
      audit(at, 'publisher', 'outbox.dlq', key, { outboxId: id, topic, attempts, reason });
    }
    return left;
  }
}
