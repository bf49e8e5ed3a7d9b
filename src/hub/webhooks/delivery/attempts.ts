/**
 * Attempts: in flight, then their results, of which those of about the same time are committed in one transaction, then the
 * log. Results that cannot be stored (a full disk, an I/O error) are kept and the commit is retried; their deliveries are
 * not sent again meanwhile.
 */
import type { Clock } from '../../../shared/base/clock.ts';
import { messageOf } from '../../../shared/base/errors.ts';
import type { Instant } from '../../../shared/base/instant.ts';
import type { Logger } from '../../../shared/base/logger.ts';
import { BatchWriter } from '../../outbox/batch-writer.ts';
import { failedOutcome, failure, type Outcome } from '../egress/outcome.ts';
import type { WebhookParts } from '../parts.ts';
import { Progress, type RunMs } from '../progress.ts';
import type { SubscriptionSource } from '../subscriptions/cache.ts';
import type { Subscription } from '../subscriptions/subscription.ts';
import { deliveryIdOf } from './contents.ts';
import type { AfterRow, AttemptRow, PendingDelivery } from './delivery-rows.ts';
import type { Next } from './schedule.ts';

export interface AttemptResult {
  readonly delivery: PendingDelivery;
  readonly attempt: AttemptRow;
  readonly after: AfterRow;
  /** False: no request was made; the attempt records the reason. */
  readonly called: boolean;
}

/** By the wall clock, for display; by the running time, for all arithmetic. */
export interface Moment {
  readonly at: Instant;
  readonly runMs: RunMs;
}

export function attemptResultOf(
  delivery: PendingDelivery,
  outcome: Outcome,
  began: Instant,
  ended: Moment,
  next: Next,
): AttemptResult {
  const { elapsedMs, status = null, cause, message, answer } = outcome;
  const waits = next.state === 'retrying';
  return {
    delivery,
    attempt: { at: began, elapsedMs, status, cause, message, answer: cause === '' ? Buffer.alloc(0) : answer },
    after: {
      state: next.state,
      dueRunMs: waits ? next.dueRunMs : delivery.dueRunMs,
      endedAt: waits ? null : ended.at,
      endedRunMs: waits ? null : ended.runMs,
    },
    called: true,
  };
}

/**
 * For a delivery that cannot be sent and that no retry repairs (its events are gone): it fails, and an attempt holds the
 * reason for reviewers. Cause "connect" means that no byte left the device.
 */
export function undeliverable(delivery: PendingDelivery, unavailable: string, moment: Moment): AttemptResult {
  const outcome = failedHere(`nothing was sent: ${unavailable}`, 0);
  return { ...attemptResultOf(delivery, outcome, moment.at, moment, { state: 'failed' }), called: false };
}

function failedHere(message: string, elapsedMs: number): Outcome {
  return failedOutcome(failure('connect', message, false), undefined, elapsedMs);
}

interface Attempt {
  readonly delivery: PendingDelivery;
  readonly controller: AbortController;
  readonly ended: Promise<void>;
}

/** Deliveries that the backlog must not claim again: their attempt is under way, or its result is not committed yet. */
export class InFlight {
  readonly #clock: Clock;
  readonly #deliveries = new Map<number, PendingDelivery>();
  readonly #attempts = new Map<number, Attempt>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#deliveries.size;
  }

  /** Attempts under way. */
  get attempts(): number {
    return this.#attempts.size;
  }

  of(subscriptionId: number): readonly number[] {
    const mine = [...this.#deliveries.values()].filter((delivery) => delivery.subscriptionId === subscriptionId);
    return mine.map(({ id }) => id);
  }

  add(delivery: PendingDelivery): void {
    this.#deliveries.set(delivery.id, delivery);
  }

  remove({ id }: PendingDelivery): void {
    this.#deliveries.delete(id);
  }

  /** `onEnded` gets undefined when the attempt was cancelled. */
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

  async end(): Promise<void> {
    await Promise.all([...this.#attempts.values()].map(({ ended }) => ended));
  }

  async #outcome(send: () => Promise<Outcome>): Promise<Outcome> {
    const beganMs = this.#clock.monoMs();
    try {
      return await send();
    } catch (error) {
      // It must never reject. The attempt counts, so that a permanent fault does not repeat without end.
      return failedHere(`the attempt was aborted: ${messageOf(error)}`, this.#clock.monoMs() - beganMs);
    }
  }
}

export interface Written {
  readonly attemptResult: AttemptResult;
  /** False: the delivery was removed or changed meanwhile, and nothing was written. */
  readonly kept: boolean;
}

interface OutcomesOptions extends WebhookParts {
  readonly onWritten: (written: readonly Written[]) => void;
}

/**
 * How long the first result waits for others: those of a change's subscribers share a commit, also when their connections are
 * new. A kill meanwhile only sends these again.
 */
const outcomeDelayMs = 250;
/** Results in one commit, which blocks the event loop for some 10 ms. */
const batchEndings = 64;
const longestRetryMs = 60_000;
/** After a power failure the running time continues from its last stored value. */
const saveMs = 600_000;

export class Outcomes {
  readonly #o: OutcomesOptions;
  readonly #progress: Progress;
  readonly #writer: BatchWriter<AttemptResult>;
  #savedMs: number;

  constructor(options: OutcomesOptions) {
    const { store, clock, logger } = options;
    this.#o = options;
    this.#progress = new Progress(store.connection);
    this.#savedMs = clock.monoMs();
    this.#writer = new BatchWriter({
      what: 'how deliveries ended',
      maxBatch: batchEndings,
      longestRetryMs,
      clock,
      logger,
      keyOf: ({ delivery }) => delivery.id,
      delayMs: (pending) => (pending < batchEndings ? outcomeDelayMs : 0),
      write: (batch) => this.#commit(batch),
    });
  }

  add(attemptResult: AttemptResult): void {
    this.#writer.add(attemptResult);
  }

  /** Called each minute: commits the running time when no result was committed for a long time. */
  async saveSometimes(): Promise<void> {
    if (this.#writer.pending === 0 && this.#o.clock.monoMs() - this.#savedMs >= saveMs) await this.#commit([]);
  }

  /** Commits pending results and the running time. Never rejects: the next process sends again what was not stored. */
  async stop(): Promise<void> {
    await this.#writer.stop();
    try {
      await this.#commit([]);
    } catch (error) {
      this.#o.logger.warn('the running time of webhooks could not be stored', { error: messageOf(error) });
    }
  }

  async #commit(batch: readonly AttemptResult[]): Promise<void> {
    const { store, clock, onWritten } = this.#o;
    const written = await store.maintain(() => this.#write(batch));
    this.#savedMs = clock.monoMs();
    onWritten(written);
  }

  #write(batch: readonly AttemptResult[]): readonly Written[] {
    const { rows, running } = this.#o;
    const written = batch.map((attemptResult) => {
      const { delivery, attempt, after } = attemptResult;
      return { attemptResult, kept: rows.write(delivery, attempt, after) };
    });
    this.#progress.saveRunning(running);
    return written;
  }
}

/** Minimum between two reports of the same trouble of a subscriber. */
const quietMs = 600_000;

type Trouble = 'fails' | 'review';

interface ReportedTrouble {
  /** undefined: none at present. */
  trouble: Trouble | undefined;
  readonly quietUntilMs: Record<Trouble, number>;
}

const words: Readonly<Record<Trouble, string>> = {
  fails: 'a webhook subscriber fails: what is sent to it is tried again by the schedule',
  review: 'webhook deliveries of a subscription are for review: they are not sent again automatically',
};

/** One log line when a subscriber begins to fail, to refuse or to be blocked, and one at its end: deliveries may be thousands. */
export class DeliveryLog {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #reported = new Map<number, ReportedTrouble>();
  /** Reason by subscription. */
  readonly #blocked = new Map<number, string>();

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger;
    this.#clock = clock;
  }

  ended({ delivery, attempt, after }: AttemptResult, { id, name }: Subscription): void {
    const reported = this.#reported.get(id) ?? { trouble: undefined, quietUntilMs: { fails: 0, review: 0 } };
    this.#reported.set(id, reported);
    const about = { subscription: id, name, delivery: deliveryIdOf(delivery) };
    if (after.state === 'delivered') {
      if (reported.trouble !== undefined) this.#logger.info('a webhook subscriber takes deliveries again', about);
      reported.trouble = undefined;
      return;
    }
    const trouble: Trouble = after.endedAt === null ? 'fails' : 'review';
    const nowMs = this.#clock.monoMs();
    if (reported.trouble === trouble || nowMs < reported.quietUntilMs[trouble]) return;
    reported.trouble = trouble;
    reported.quietUntilMs[trouble] = nowMs + quietMs;
    const { cause, message: error } = attempt;
    this.#logger.warn(words[trouble], { ...about, state: after.state, attempts: delivery.attempts + 1, cause, error });
  }

  /** Called when subscriptions or tokens changed. */
  update(cache: SubscriptionSource): void {
    for (const ids of [this.#reported, this.#blocked]) for (const id of ids.keys()) if (!cache.byId(id)) ids.delete(id);
    for (const subscription of cache.all()) {
      if (subscription.active) this.#updateBlocked(subscription, cache.blocked(subscription));
      else this.#blocked.delete(subscription.id);
    }
  }

  #updateBlocked({ id, name }: Subscription, why: string): void {
    const before = this.#blocked.get(id) ?? '';
    if (why === before) return;
    this.#blocked.set(id, why);
    const about = { subscription: id, name };
    if (why === '') this.#logger.info('a webhook subscription is not blocked any more', about);
    else this.#logger.warn('a webhook subscription is blocked: nothing is sent to it', { ...about, why });
  }
}
