/**
 * Writes the broker's answers into the outbox, in batches, and refusals into the operator's log. Rows whose result cannot be
 * written (a full disk) are not sent again meanwhile.
 */
import type { Clock } from '../../../shared/base/clock.ts';
import { instantOfMs } from '../../../shared/base/instant.ts';
import type { Logger } from '../../../shared/base/logger.ts';
import { BatchWriter } from '../batch-writer.ts';
import type { Audit, ChangeStore } from '../change-store.ts';
import type { Scope } from '../event.ts';
import type { KeyQueue, Refusal, RowUpdate } from './key-queues.ts';
import type { QueueRows } from './queue-rows.ts';

interface ResultWriterOptions {
  readonly store: ChangeStore;
  readonly rows: QueueRows;
  readonly topicOf: (scope: Scope) => string;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Enough rows are in flight to keep the connection to the broker busy. */
  readonly isBusy: () => boolean;
  /** Called after a commit with what it has written, and how many rows no longer wait. */
  readonly onWritten: (batch: readonly RowUpdate[], left: number) => void;
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
    onWritten(batch, left);
  }

  #mark(batch: readonly RowUpdate[], audit: Audit): number {
    const { rows, clock } = this.#o;
    const published = batch.filter(({ kind }) => kind === 'published').map(({ id }) => id);
    let left = rows.markPublished(published, instantOfMs(clock.wallMs()));
    for (const update of batch) left += Number(this.#markOther(update, audit));
    for (const queue of new Set(batch.filter(isDeferred).map((update) => update.queue))) rows.setHead(queue);
    return left;
  }

  /** Whether it waited, and does no longer. */
  #markOther(update: RowUpdate, audit: Audit): boolean {
    const { rows } = this.#o;
    const { kind, id, queue, refusal } = update;
    if (kind === 'behind') rows.deferBehind(id, queue);
    if (kind === 'deferred') rows.defer(update);
    if (refusal === undefined) return false;
    if (kind === 'dead') return this.#markDead(id, queue, refusal, audit);
    rows.markAttempt(id, refusal);
    return false;
  }

  #markDead(id: number, { scope, key }: KeyQueue, refusal: Refusal, audit: Audit): boolean {
    const { rows, store, topicOf } = this.#o;
    const at = store.now();
    if (!rows.markDead(id, refusal, at)) return false;
    audit(at, 'publisher', 'outbox.dlq', key, { outboxId: id, topic: topicOf(scope), ...refusal });
    return true;
  }
}

function isDeferred({ kind }: RowUpdate): boolean {
  return kind === 'deferred' || kind === 'behind';
}

/** A reason is logged again after it did not occur for this long. */
const quietMs = 3_600_000;
/** librdkafka has about 200 error codes, of which a broker uses a few. */
const maxReasons = 20;

/** Logs refusals: a line for each kind of reason, not for each row or attempt. */
export class RejectLog {
  readonly #clock: Clock;
  readonly #logger: Logger;
  /** By whether it is dead, and the reason without numbers: when it last occurred, monotonic. */
  readonly #seen = new Map<string, number>();

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Keys of records are not logged. */
  note({ kind, id, refusal }: Pick<RowUpdate, 'kind' | 'id' | 'refusal'>): void {
    if (refusal === undefined) return;
    const { reason } = refusal;
    const nowMs = this.#clock.monoMs();
    const about = `${kind === 'dead'} ${reason.replaceAll(/\d+/g, '')}`;
    const seenMs = this.#seen.get(about);
    if (seenMs === undefined && !this.#hasRoom(nowMs)) return;
    this.#seen.set(about, nowMs);
    if (seenMs !== undefined && nowMs - seenMs < quietMs) return;
    const fields = { outboxId: id, ...refusal };
    if (kind === 'dead') this.#logger.error('a change cannot be published: it is a dead letter', fields);
    else this.#logger.warn('the broker refuses a change: it and later ones of its key wait', fields);
  }

  #hasRoom(nowMs: number): boolean {
    for (const [about, seenMs] of this.#seen) if (nowMs - seenMs >= quietMs) this.#seen.delete(about);
    return this.#seen.size < maxReasons;
  }
}
