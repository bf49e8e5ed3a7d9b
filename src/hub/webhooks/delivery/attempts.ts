/**
 * Attempts: those in flight, and how attempts ended, committed together: one transaction for those that end at about the same
 * time. Results that cannot be stored (a full disk, an I/O error) are kept and tried again; their deliveries are not sent
 * again meanwhile.
 */
import { backoffMs } from '../../../shared/base/backoff.ts';
import type { Clock, Timer } from '../../../shared/base/clock.ts';
import { messageOf } from '../../../shared/base/errors.ts';
import type { Logger } from '../../../shared/base/logger.ts';
import type { ChangeStore } from '../../outbox/change-store.ts';
import type { Outcome } from '../egress/outcome.ts';
import { Progress, type RunningTime } from '../progress.ts';
import { type AttemptResult, rejectedSender } from './attempt-result.ts';
import type { BodySource } from './body-source.ts';
import type { DeliveryRows, PendingDelivery } from './delivery-rows.ts';

interface Attempt {
  readonly delivery: PendingDelivery;
  readonly controller: AbortController;
  readonly ended: Promise<void>;
}

/** The deliveries in flight: under way, or ended and not committed yet. None of them is taken again meanwhile. */
export class InFlight {
  readonly #clock: Clock;
  readonly #attempts = new Map<number, Attempt>();
  readonly #bySubscription = new Map<number, Set<number>>();
  #size = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#size;
  }

  /** Attempts under way. */
  get attempts(): number {
    return this.#attempts.size;
  }

  of(subscriptionId: number): readonly number[] {
    return [...(this.#bySubscription.get(subscriptionId) ?? [])];
  }

  add({ id, subscriptionId }: PendingDelivery): void {
    const ids = this.#bySubscription.get(subscriptionId) ?? new Set();
    this.#bySubscription.set(subscriptionId, ids.add(id));
    this.#size++;
  }

  remove({ id, subscriptionId }: PendingDelivery): void {
    const ids = this.#bySubscription.get(subscriptionId);
    if (ids?.delete(id) !== true) return;
    if (ids.size === 0) this.#bySubscription.delete(subscriptionId);
    this.#size--;
  }

  /** `onEnded`: when nothing of it is left; undefined: it was cancelled. */
  begin(
    delivery: PendingDelivery,
    send: (signal: AbortSignal) => Promise<Outcome>,
    onEnded: (outcome: Outcome | undefined) => void,
  ): void {
    const controller = new AbortController();
    const { signal } = controller;
    const ended = this.#outcome(() => send(signal)).then((outcome) => {
      this.#attempts.delete(delivery.id);
      onEnded(signal.aborted ? undefined : outcome);
    });
    this.#attempts.set(delivery.id, { delivery, controller, ended });
  }

  cancel(isMeant: (delivery: PendingDelivery) => boolean): void {
    for (const { delivery, controller } of this.#attempts.values()) if (isMeant(delivery)) controller.abort();
  }

  /** The attempts under way now have ended. */
  async end(): Promise<void> {
    await Promise.all([...this.#attempts.values()].map(({ ended }) => ended));
  }

  async #outcome(send: () => Promise<Outcome>): Promise<Outcome> {
    const beganMs = this.#clock.monoMs();
    try {
      return await send();
    } catch (error) {
      return rejectedSender(messageOf(error), this.#clock.monoMs() - beganMs);
    }
  }
}

export interface Written {
  readonly attemptResult: AttemptResult;
  /** False: the delivery had gone, so that there was nothing to write. */
  readonly kept: boolean;
}

export interface OutcomesOptions {
  readonly store: ChangeStore;
  readonly rows: DeliveryRows;
  readonly bodies: Pick<BodySource, 'keep'>;
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
/** A power failure puts running time back to where it was stored last. */
const saveMs = 600_000;

export class Outcomes {
  readonly #o: OutcomesOptions;
  readonly #progress: Progress;
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
    this.#progress = new Progress(options.store.connection);
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
      const isForReview = attemptResult.after.state === 'rejected' || attemptResult.after.state === 'failed';
      // Its events may leave the outbox from now on.
      if (kept && isForReview) bodyBytes += this.#o.bodies.keep(attemptResult.delivery);
      written.push({ attemptResult, kept });
    }
    this.#progress.saveRunning(this.#o.running);
    return written;
  }
}
