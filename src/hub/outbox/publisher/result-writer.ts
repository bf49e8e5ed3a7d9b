/**
 * Writes the broker's answers into the outbox, in batches, and refusals into the operator's log. Rows whose result cannot be
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
  /** Enough rows are in flight to keep the connection to the broker busy. */
  readonly isBusy: () => boolean;
  /** Called after a commit with the ids whose outcome was final, and how many rows no longer wait. */
  readonly onWritten: (ids: readonly number[], left: number) => void;
}

/** 2,000 marks take some 10 ms. */
const maxBatch = 2_000;
/** On a slow card the next batch waits as long as the last one took, at most this long. */
const longestRestMs = 250;
/** Each transaction is an fsync: while the connection is busy, the next one collects marks for this long. */
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

  /** Writes pending updates; the rows of those that fail are sent again by the next process. */
  stop(): Promise<void> {
    return this.#batches.stop();
  }

  get pending(): number {
    return this.#batches.pending;
  }

  async #write(batch: readonly RowUpdate[]): Promise<void> {
    const { store, clock, isBusy, onWritten } = this.#o;
    const beganMs = clock.monoMs();
    const written = store.maintain((audit) => this.#mark(batch, audit));
    // The transaction has run already, unless an import delays it.
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

/** A reason is logged again after it did not occur for this long. */
const quietMs = 3_600_000;
/** librdkafka has about 200 error codes, of which a broker uses a few. */
const maxReasons = 20;

/** Logs refusals: a line for each kind of reason, not for each row or attempt. */
export class RejectLog {
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** By kind of result and reason without numbers: when it last occurred, monotonic. */
  readonly #seen = new Map<string, number>();

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Keys of records are not logged. */
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
