/**
 * How attempts ended, committed together: one transaction for those that end at about the same time. What cannot be stored
 * (a full disk, an I/O error) is kept and tried again; its deliveries are not sent again meanwhile.
 */
import { backoffMs } from '../../../shared/base/backoff.ts';
import type { Clock, Timer } from '../../../shared/base/clock.ts';
import { messageOf } from '../../../shared/base/errors.ts';
import type { Logger } from '../../../shared/base/logger.ts';
import type { ChangeStore } from '../../outbox/change-store.ts';
import { type RunningTime, saveRunning } from '../running-time.ts';
import type { AttemptResult } from './attempt-result.ts';
import { type Bodies, madeBody } from './body-made.ts';
import type { DispatchRows } from './delivery-rows.ts';

export interface Written {
  readonly attemptResult: AttemptResult;
  /** False: the delivery had gone, so that there was nothing to write. */
  readonly kept: boolean;
}

export interface OutcomesOptions {
  readonly store: ChangeStore;
  readonly rows: DispatchRows;
  readonly bodies: Bodies;
  readonly running: RunningTime;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Committed. */
  readonly onWritten: (written: readonly Written[]) => void;
}

/** So long the first one waits for others: on a slow card a commit takes some 100 ms. */
const outcomeDelayMs = 50;
/** So many are worth a commit at once, and a commit has so many at most: it holds the loop for some 10 ms. */
const batchEndings = 64;
/** Bodies kept for review in one commit; to make and deflate 1 MiB takes some 30 ms. */
const batchBodyBytes = 1024 * 1024;
const firstRetryMs = 1_000;
const longestRetryMs = 60_000;
/** A power loss puts running time back to where it was stored last. */
const saveMs = 600_000;

export class Outcomes {
  readonly #o: OutcomesOptions;
  readonly #save: (running: RunningTime) => void;
  #pending: AttemptResult[] = [];
  #running: Promise<void> | undefined;
  #timer: Timer | undefined;
  #asked = false;
  /** Commits that failed in a row. */
  #failures = 0;
  #savedMs: number;
  #stopping = false;

  constructor(options: OutcomesOptions) {
    this.#o = options;
    this.#save = saveRunning(options.store.connection);
    this.#savedMs = options.clock.monoMs();
  }

  add(attemptResult: AttemptResult): void {
    this.#pending.push(attemptResult);
    if (this.#failures > 0 || this.#stopping) return;
    if (this.#pending.length >= batchEndings) this.#soon();
    else this.#timer ??= this.#o.clock.timer(outcomeDelayMs, () => this.#go());
  }

  /** Each minute: where nothing else was committed for long, the running time alone is. */
  saveSometimes(): void {
    if (this.#o.clock.monoMs() - this.#savedMs >= saveMs && this.#failures === 0) this.#go();
  }

  /** Commits what is at hand, and the running time. Never rejects: what fails now is sent again by the next process. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#timer?.cancel();
    await this.#running;
    this.#failures = 0;
    do await this.#flush();
    while (this.#pending.length > 0 && this.#failures === 0);
  }

  /** After those that end in this turn of the loop. */
  #soon(): void {
    if (this.#asked || this.#running !== undefined) return;
    this.#asked = true;
    setImmediate(() => {
      this.#asked = false;
      if (!this.#stopping) this.#go();
    });
  }

  #go(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#running ??= this.#flush().finally(() => {
      this.#running = undefined;
      this.#again();
    });
  }

  #again(): void {
    if (this.#stopping) return;
    if (this.#failures > 0) {
      const delayMs = backoffMs(this.#failures - 1, firstRetryMs, longestRetryMs);
      this.#timer ??= this.#o.clock.timer(delayMs, () => this.#go());
    } else if (this.#pending.length > 0) this.#soon();
  }

  async #flush(): Promise<void> {
    const { store, clock, logger, onWritten } = this.#o;
    const batch = this.#pending.slice(0, batchEndings);
    let written: readonly Written[];
    try {
      written = await store.maintain(() => this.#write(batch));
    } catch (error) {
      if (this.#failures++ === 0) logger.warn('how deliveries ended could not be stored', { error: messageOf(error) });
      return;
    }
    if (this.#failures > 0) logger.info('how deliveries ended can be stored again');
    this.#failures = 0;
    this.#savedMs = clock.monoMs();
    this.#pending.splice(0, written.length);
    onWritten(written);
  }

  /** In the transaction. As many of the batch as their bodies leave room for. */
  #write(batch: readonly AttemptResult[]): readonly Written[] {
    const written: Written[] = [];
    let bodyBytes = 0;
    for (const attemptResult of batch) {
      if (bodyBytes >= batchBodyBytes) break;
      const kept = this.#o.rows.write(attemptResult.delivery, attemptResult.attempt, attemptResult.after);
      if (kept) bodyBytes += this.#keepBody(attemptResult);
      written.push({ attemptResult, kept });
    }
    this.#save(this.#o.running);
    return written;
  }

  /** What is for review keeps its body: its events may leave the outbox from now on. Answers its bytes. */
  #keepBody({ delivery, after: { state } }: AttemptResult): number {
    const { rows, bodies, store } = this.#o;
    if ((state !== 'rejected' && state !== 'failed') || rows.hasBody(delivery.id)) return 0;
    const made = madeBody(bodies, store.connection, delivery);
    if ('unavailable' in made) return 0;
    rows.keepBody(delivery.id, made.body);
    return made.body.length;
  }
}
