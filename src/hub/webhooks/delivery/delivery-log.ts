/**
 * What the operator's log says of subscribers: a line when one begins to fail, to refuse or to be blocked, with all that is
 * needed to look further, and one when that has ended. Not a line for each delivery: there may be thousands.
 */
import type { Clock } from '../../../shared/base/clock.ts';
import type { Logger } from '../../../shared/base/logger.ts';
import { deliveryIdOf, type Subscription, type SubscriptionCache } from '../parts.ts';
import type { AttemptResult } from './attempt-result.ts';

/** A subscriber that fails now and then is said to fail no more often. */
const quietMs = 600_000;

type Trouble = 'fails' | 'review';

interface ReportedTrouble {
  /** undefined: nothing that has not ended. */
  trouble: Trouble | undefined;
  readonly quietUntilMs: Record<Trouble, number>;
}

const words: Readonly<Record<Trouble, string>> = {
  fails: 'a webhook subscriber fails: what is sent to it is tried again by the schedule',
  review: 'webhook deliveries of a subscription are for review: they are not sent again by themselves',
};

export class DispatchLog {
  readonly #logger: Logger;
  readonly #clock: Clock;
  readonly #said = new Map<number, ReportedTrouble>();
  /** Why, by subscription. */
  readonly #blocked = new Map<number, string>();

  constructor(logger: Logger, clock: Clock) {
    this.#logger = logger;
    this.#clock = clock;
  }

  /** Committed. */
  ended({ delivery, attempt, after }: AttemptResult, { id, name }: Subscription): void {
    const said = this.#said.get(id) ?? { trouble: undefined, quietUntilMs: { fails: 0, review: 0 } };
    this.#said.set(id, said);
    const about = { subscription: id, name, delivery: deliveryIdOf(delivery) };
    if (after.state === 'delivered') {
      if (said.trouble !== undefined) this.#logger.info('a webhook subscriber takes deliveries again', about);
      said.trouble = undefined;
      return;
    }
    const trouble: Trouble = after.endedAt === null ? 'fails' : 'review';
    const nowMs = this.#clock.monoMs();
    if (said.trouble === trouble || nowMs < said.quietUntilMs[trouble]) return;
    said.trouble = trouble;
    said.quietUntilMs[trouble] = nowMs + quietMs;
    const { cause, message: error } = attempt;
    this.#logger.warn(words[trouble], { ...about, state: after.state, attempts: delivery.attempts + 1, cause, error });
  }

  /** The subscriptions, or who may have what, may have changed. */
  update(cache: SubscriptionCache): void {
    for (const ids of [this.#said, this.#blocked]) for (const id of ids.keys()) if (!cache.byId(id)) ids.delete(id);
    for (const subscription of cache.all()) {
      if (subscription.active) this.#refresh(subscription, cache.blocked(subscription));
      else this.#blocked.delete(subscription.id);
    }
  }

  #refresh({ id, name }: Subscription, why: string): void {
    const before = this.#blocked.get(id) ?? '';
    if (why === before) return;
    this.#blocked.set(id, why);
    const about = { subscription: id, name };
    if (why === '') this.#logger.info('a webhook subscription is not blocked any more', about);
    else this.#logger.warn('a webhook subscription is blocked: nothing is sent to it', { ...about, why });
  }
}
