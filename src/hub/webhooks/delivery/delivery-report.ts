/** What is reported of deliveries: how many there are, and what the operator's log says of subscribers. */
import type { Clock } from '../../../shared/base/clock.ts';
import type { Logger } from '../../../shared/base/logger.ts';
import type { Cause } from '../face.ts';
import type { SubscriptionSource } from '../subscriptions/cache.ts';
import type { Subscription } from '../subscriptions/subscription.ts';
import type { AttemptResult } from './attempts.ts';
import { type Counts, type DeliveryRows, deliveryIdOf } from './delivery-rows.ts';

/** How many wait and are for review: counted when asked for, where they have changed. And how attempts ended since the start. */
export class DeliveryCounts {
  readonly #rows: Pick<DeliveryRows, 'counts'>;
  readonly #onUnreadable: (error: unknown) => void;
  #counts: Counts = { waiting: 0, rejected: 0, failed: 0 };
  #isStale = true;
  deliveredTotal = 0;
  readonly attemptsTotal: Record<Cause | '', number> = {
    '': 0,
    dns: 0,
    timeout: 0,
    ssrf: 0,
    tls: 0,
    connect: 0,
    http: 0,
  };

  constructor(rows: Pick<DeliveryRows, 'counts'>, onUnreadable: (error: unknown) => void) {
    this.#rows = rows;
    this.#onUnreadable = onUnreadable;
  }

  /** To count 200,000 that wait takes some 10 ms. Where they cannot be counted: as before. */
  get now(): Counts {
    if (this.#isStale) {
      try {
        this.#counts = this.#rows.counts();
        this.#isStale = false;
      } catch (error) {
        this.#onUnreadable(error);
      }
    }
    return this.#counts;
  }

  /** Committed: deliveries or subscriptions have changed. */
  stale(): void {
    this.#isStale = true;
  }

  /** Committed. */
  ended({ attempt, after, called }: AttemptResult): void {
    this.#isStale = true;
    if (called) this.attemptsTotal[attempt.cause]++;
    if (after.state === 'delivered') this.deliveredTotal++;
  }
}

/** A subscriber that fails now and then is reported no more often. */
const quietMs = 600_000;

type Trouble = 'fails' | 'review';

interface ReportedTrouble {
  /** undefined: nothing that has not ended. */
  trouble: Trouble | undefined;
  readonly quietUntilMs: Record<Trouble, number>;
}

const words: Readonly<Record<Trouble, string>> = {
  fails: 'a webhook subscriber fails: what is sent to it is tried again by the schedule',
  review: 'webhook deliveries of a subscription are for review: they are not sent again automatically',
};

/**
 * A line when a subscriber begins to fail, to refuse or to be blocked, with all that is needed to look further, and one when
 * that has ended. Not a line for each delivery: there may be thousands.
 */
export class DeliveryLog {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #reported = new Map<number, ReportedTrouble>();
  /** Why, by subscription. */
  readonly #blocked = new Map<number, string>();

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger;
    this.#clock = clock;
  }

  /** Committed. */
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

  /** The subscriptions, or who may have what, may have changed. */
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
