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
  /** How long a mark may wait for others; default 1,000. */
  readonly markDelayMs?: number;
  /** Called after a commit with what it has written, and how many rows no longer wait. */
  readonly onWritten: (batch: readonly RowUpdate[], left: number) => void;
}

/** 2,000 marks take some 10 ms. */
const maxBatch = 2_000;
/** On a slow card the next batch waits as long as the last one took, at most this long. */
const longestRestMs = 250;
/** Each transaction is an fsync: while the connection is busy, the next one collects marks for this long. 45 ms saved no CPU (22.0 us a row, 20.0 with 20). */
const busyRestMs = 20;
const longestRetryMs = 1_000;
/**
 * A mark alone is a transaction, unless it waits for others: if no event of its key waits for it, and not more than these wait. A
 * kill meanwhile only sends these events again. Written for each of 25 changes a second, when one without a broker wrote
 * 35 KB: 48.1 KB without waiting, 36.5 KB with. Waiting for 5 s would help only changes that are 1 to 5 s apart. Fewer than RefdataOutboxLagHigh
 * allows, because they count as waiting.
 */
const defaultMarkDelayMs = 1_000;
const maxDelayedMarks = 50;

interface Result {
  readonly update: RowUpdate;
  /** When the broker answered. */
  readonly wallMs: number;
  readonly monoMs: number;
}

export class ResultWriter {
  readonly #o: ResultWriterOptions;
  readonly #batches: BatchWriter<Result>;
  readonly #logRefusal: ReturnType<typeof rejectLog>;
  #restUntilMs = 0;
  publishedTotal = 0;

  constructor(options: ResultWriterOptions) {
    const { clock, logger } = options;
    this.#o = options;
    this.#logRefusal = rejectLog(clock, logger);
    this.#batches = new BatchWriter<Result>({
      what: 'acknowledgements',
      maxBatch,
      longestRetryMs,
      clock,
      logger,
      keyOf: ({ update }) => update.id,
      delayMs: (_, pending) => Math.max(this.#restUntilMs, this.#delayedUntilMs(pending)) - clock.monoMs(),
      write: (batch) => this.#write(batch),
    });
  }

  add(update: RowUpdate): void {
    const { clock } = this.#o;
    this.#batches.add({ update, wallMs: clock.wallMs(), monoMs: clock.monoMs() });
    this.#logRefusal(update);
  }

  /** Other events of the keys whose marks are delayed may wait now. */
  hasten(): void {
    this.#batches.hasten();
  }

  #delayedUntilMs(pending: ReadonlyMap<unknown, Result>): number {
    const { markDelayMs = defaultMarkDelayMs } = this.#o;
    if (pending.size > maxDelayedMarks) return 0;
    let untilMs = Number.POSITIVE_INFINITY;
    for (const { update, monoMs } of pending.values()) {
      if (update.kind !== 'published' || update.queue.ids.length > 1) return 0;
      untilMs = Math.min(untilMs, monoMs + markDelayMs);
    }
    return untilMs;
  }

  /** Writes pending updates; the rows of those that fail are sent again by the next process. */
  stop(): Promise<void> {
    return this.#batches.stop();
  }

  get pending(): number {
    return this.#batches.pending;
  }

  async #write(results: readonly Result[]): Promise<void> {
    const { store, clock, isBusy, onWritten } = this.#o;
    const beganMs = clock.monoMs();
    const batch = results.map(({ update }) => update);
    const written = store.maintain((audit) => this.#mark(results, audit));
    // The transaction has run already, unless an import delays it.
    const tookMs = clock.monoMs() - beganMs;
    this.#restUntilMs = beganMs + tookMs + Math.min(Math.max(tookMs, isBusy() ? busyRestMs : 0), longestRestMs);
    const left = await written;
    this.publishedTotal += batch.filter(({ kind }) => kind === 'published').length;
    onWritten(batch, left);
  }

  #mark(results: readonly Result[], audit: Audit): number {
    const { rows, clock } = this.#o;
    const published = results.filter(({ update }) => update.kind === 'published');
    // Those of a large batch were acknowledged just now; with one time, consecutive ones are one statement.
    const nowMs = published.length > maxDelayedMarks ? clock.wallMs() : undefined;
    let left = 0;
    for (const [atMs, some] of Map.groupBy(published, ({ wallMs }) => nowMs ?? wallMs)) {
      const ids = some.map(({ update }) => update.id);
      left += rows.markPublished(ids, instantOfMs(atMs));
    }
    const batch = results.map(({ update }) => update);
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
    rows.sql.attempt.run(refusal.attempts, refusal.reason, id);
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
export function rejectLog(clock: Clock, logger: Logger) {
  /** By whether it is dead, and the reason without numbers: when it last occurred, monotonic. */
  const seen = new Map<string, number>();
  const hasRoom = (nowMs: number): boolean => {
    for (const [about, seenMs] of seen) if (nowMs - seenMs >= quietMs) seen.delete(about);
    return seen.size < maxReasons;
  };
  /** Keys of records are not logged. */
  return ({ kind, id, refusal }: Pick<RowUpdate, 'kind' | 'id' | 'refusal'>): void => {
    if (refusal === undefined) return;
    const { reason } = refusal;
    const nowMs = clock.monoMs();
    const about = `${kind === 'dead'} ${reason.replaceAll(/\d+/g, '')}`;
    const seenMs = seen.get(about);
    if (seenMs === undefined && !hasRoom(nowMs)) return;
    seen.set(about, nowMs);
    if (seenMs !== undefined && nowMs - seenMs < quietMs) return;
    const fields = { outboxId: id, ...refusal };
    if (kind === 'dead') logger.error('a change cannot be published: it is a dead letter', fields);
    else logger.warn('the broker refuses a change: it and later ones of its key wait', fields);
  };
}
