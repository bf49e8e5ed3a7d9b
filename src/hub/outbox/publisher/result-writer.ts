/**
 * What the broker's answers change in the outbox, written in batches, and in the operator's log. Rows whose result cannot be
 * written (a full disk) are not sent again meanwhile.
 */
import type { Clock } from '../../../shared/base/clock.ts';
import { instantOfMs } from '../../../shared/base/instant.ts';
import type { Logger } from '../../../shared/base/logger.ts';
import { BatchWriter } from '../batch-writer.ts';
import type { Audit, ChangeStore } from '../change-store.ts';
import type { RowUpdate } from './publish-scheduler.ts';
import type { WaitingRows } from './waiting-rows.ts';

interface ResultWriterOptions {
  readonly store: ChangeStore;
  readonly rows: WaitingRows;
  readonly clock: Clock;
  readonly logger: Logger;
  /** So much is in flight that the connection to the broker stays busy without what is still to be written. */
  readonly isBusy: () => boolean;
  /** Committed: the ids whose outcome was final, and how many rows no longer wait. */
  readonly onWritten: (ids: readonly number[], left: number) => void;
}

/** 2,000 marks take some 10 ms. */
const maxBatch = 2_000;
/** On a slow card the next batch waits as long as the last one took, but never longer. */
const longestRestMs = 250;
/** With much in flight nothing waits for a mark, and each transaction is an fsync: the next one collects for this long. */
const busyRestMs = 20;
const longestRetryMs = 1_000;

export class ResultWriter {
  readonly #o: ResultWriterOptions;
  readonly #batches: BatchWriter<RowUpdate>;
  readonly #rejects: RejectLog;
  #restUntilMs = 0;
  publishedTotal = 0;

  constructor(options: ResultWriterOptions) {
    const { clock, logger } = options;
    this.#o = options;
    this.#rejects = new RejectLog(clock, logger);
    this.#batches = new BatchWriter<RowUpdate>({
      what: 'acknowledgements',
      maxBatch,
      longestRetryMs,
      clock,
      logger,
      // While nothing can be stored a refused row is refused again each minute.
      keyOf: ({ id }) => id,
      delayMs: () => this.#restUntilMs - clock.monoMs(),
      write: (batch) => this.#write(batch),
    });
  }

  add(update: RowUpdate): void {
    this.#batches.add(update);
    this.#rejects.note(update);
  }

  /** Writes what is there; what fails now is sent again by the next process. */
  stop(): Promise<void> {
    return this.#batches.stop();
  }

  /** Updates that are still to be stored: bounded by the head rows. */
  get pending(): number {
    return this.#batches.pending;
  }

  async #write(batch: readonly RowUpdate[]): Promise<void> {
    const { store, clock, isBusy, onWritten } = this.#o;
    const beganMs = clock.monoMs();
    const written = store.maintain((audit) => this.#mark(batch, audit));
    // The transaction has run by now, unless an import holds it up.
    const tookMs = clock.monoMs() - beganMs;
    this.#restUntilMs = beganMs + tookMs + Math.min(Math.max(tookMs, isBusy() ? busyRestMs : 0), longestRestMs);
    const left = await written;
    this.publishedTotal += batch.filter(({ kind }) => kind === 'published').length;
    onWritten(
      batch.filter(({ kind }) => kind !== 'attempt').map(({ id }) => id),
      left,
    );
  }

  #mark(batch: readonly RowUpdate[], audit: Audit): number {
    const { rows, clock, store } = this.#o;
    const published = batch.filter(({ kind }) => kind === 'published').map(({ id }) => id);
    let left = rows.markPublished(published, instantOfMs(clock.wallMs()));
    for (const update of batch) {
      if (update.kind === 'attempt') rows.markAttempt(update.id, update.attempts, update.reason);
      if (update.kind !== 'dead') continue;
      const { id, attempts, reason, topic, key } = update;
      const at = store.now();
      if (!rows.markDead(id, attempts, reason, at)) continue;
      left++;
      audit(at, 'publisher', 'outbox.dlq', key, { outboxId: id, topic, attempts, reason });
    }
    return left;
  }
}

/** A reason that did not occur for so long is logged again. */
const quietMs = 3_600_000;
/** Reasons remembered; librdkafka has some two hundred error codes, of which a broker uses a few. */
const maxReasons = 20;

/** What the broker refuses, in the log: a line for each kind of reason, not one for each row or attempt. */
export class RejectLog {
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** By kind of result and reason without its numbers: when it was seen last, monotonic. */
  readonly #seen = new Map<string, number>();

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** The row by its id only: keys of records are not for the journal. */
  note(update: RowUpdate): void {
    if (update.kind === 'published') return;
    const { kind, id, attempts, reason } = update;
    const nowMs = this.#clock.monoMs();
    const about = `${kind} ${reason.replaceAll(/\d+/g, '')}`;
    const seenMs = this.#seen.get(about);
    if (seenMs === undefined && !this.#hasRoom(nowMs)) return;
    this.#seen.set(about, nowMs);
    if (seenMs !== undefined && nowMs - seenMs < quietMs) return;
    const fields = { outboxId: id, attempts, reason };
    if (kind === 'dead') this.#logger.error('a change cannot be published: it is a dead letter', fields);
    else this.#logger.warn('the broker refuses a change: it and later ones of its key wait', fields);
  }

  #hasRoom(nowMs: number): boolean {
    for (const [about, seenMs] of this.#seen) if (nowMs - seenMs >= quietMs) this.#seen.delete(about);
    return this.#seen.size < maxReasons;
  }
}
