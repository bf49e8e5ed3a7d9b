/**
 * Waiting deliveries, read one at a time when the dispatcher claims them, however many there are. The scheduler chooses the
 * subscription. A read that fails is retried later, for each subscription separately.
 */
import { messageOf } from '../../../shared/base/errors.ts';
import type { Message } from '../egress/sender.ts';
import type { WebhookParts } from '../parts.ts';
import type { RunMs } from '../progress.ts';
import type { Secrets, Subscription } from '../subscriptions/subscription.ts';
import { type Counts, type DeliveryRows, deliveryIdOf, type PendingDelivery } from './delivery-rows.ts';
import { NextDueCache } from './schedule.ts';

type BacklogOptions = WebhookParts & { readonly rows: DeliveryRows };

export type Claim =
  | {
      readonly delivery: PendingDelivery;
      readonly subscription: Subscription;
      readonly secrets: Secrets;
      readonly message: Message;
    }
  /** It cannot be sent. */
  | { readonly delivery: PendingDelivery; readonly unavailable: string };

interface Change {
  /** Served subscriptions, ascending. */
  readonly ids: readonly number[];
  /** No longer served. */
  readonly left: readonly number[];
  /** New in `ids`, with waiting deliveries whose attempts failed before. */
  readonly halfOpen: readonly number[];
}

/** The cache blocks a subscription with an unreadable secret; until it does, the secret is read again after this time. */
const unreadableSecretMs = 60_000;
/** Deliveries read ahead for each subscription: each read passes over all in flight, half of the cost of a delivery. */
const readAhead = 16;

export class Backlog {
  readonly #o: BacklogOptions;
  /** Active and not blocked. */
  #served = new Map<number, Subscription>();
  readonly nextDue = new NextDueCache();
  /** Read and not claimed yet. */
  readonly #ahead = new Map<number, readonly PendingDelivery[]>();
  #stale = true;
  #counts: Counts = { waiting: 0, rejected: 0, failed: 0 };
  #isCounted = false;
  /** The failure is logged. */
  #unreadable = false;
  #oldestDueSeconds = 0;

  constructor(options: BacklogOptions) {
    this.#o = options;
  }

  refreshAll(): void {
    this.#stale = true;
    this.#ahead.clear();
    this.nextDue.all();
  }

  /** undefined: nothing changed since the last call. */
  change(): Change | undefined {
    if (!this.#stale) return undefined;
    this.#stale = false;
    const { cache, rows } = this.#o;
    const before = [...this.#served.keys()];
    const served = cache.all().filter((subscription) => subscription.active && cache.blocked(subscription) === '');
    this.#served = new Map(served.map((subscription) => [subscription.id, subscription]));
    const ids = served.map(({ id }) => id);
    const left = before.filter((id) => !this.#served.has(id));
    const halfOpen = this.nextDue
      .keep(ids)
      .filter((id) => this.#tried(() => rows.sql.latestState.get(id)) === 'retrying');
    return { ids, left, halfOpen };
  }

  /** Whether an attempt under way may continue. */
  serves(delivery: PendingDelivery): boolean {
    const subscription = this.#served.get(delivery.subscriptionId);
    return subscription !== undefined && (this.#tried(() => this.#closedTo(subscription, delivery)) ?? '') === '';
  }

  /** The first due delivery that is not in flight; undefined: none is due. */
  claim(id: number, runMs: RunMs, inFlight: readonly number[]): Claim | undefined {
    try {
      const delivery = this.#first(id, runMs, inFlight);
      this.nextDue.from(id, delivery?.dueRunMs ?? Number.POSITIVE_INFINITY);
      const claim = delivery === undefined || delivery.dueRunMs > runMs ? undefined : this.#made(delivery, runMs);
      this.nextDue.succeeded(id);
      this.#unreadable = false;
      return claim;
    } catch (error) {
      this.nextDue.failed(id, runMs);
      this.#couldNotRead(error);
      return undefined;
    }
  }

  /** The next delivery, due or not. Others of the same read that are due already are claimed next. */
  #first(id: number, runMs: RunMs, inFlight: readonly number[]): PendingDelivery | undefined {
    const [next, ...others] = this.#ahead.get(id) ?? this.#o.rows.sql.next.all(id, JSON.stringify(inFlight), readAhead);
    const delivery = others.filter(({ dueRunMs }) => dueRunMs <= runMs);
    if (delivery.length > 0) this.#ahead.set(id, delivery);
    else this.#ahead.delete(id);
    return next;
  }

  #made(delivery: PendingDelivery, runMs: RunMs): Claim | undefined {
    const { cache, bodies } = this.#o;
    const id = delivery.subscriptionId;
    const subscription = this.#served.get(id);
    const secrets = cache.secrets(id, runMs);
    if (subscription === undefined || 'unreadable' in secrets) {
      this.nextDue.from(id, runMs + unreadableSecretMs);
      return undefined;
    }
    const closed = this.#closedTo(subscription, delivery);
    const made = closed === '' ? bodies.bodyOf(delivery) : { unavailable: closed };
    if ('unavailable' in made) return { delivery, ...made };
    return { delivery, subscription, secrets, message: { deliveryId: deliveryIdOf(delivery), ...made } };
  }

  /**
   * Reason why the subscription must not receive this delivery; '': none. A delivery that was planned earlier may hold scopes
   * that the subscription (perhaps with another URL now) or its consumer has lost since.
   */
  #closedTo(subscription: Subscription, { templateId }: PendingDelivery): string {
    const scopes = this.#o.bodies.templateOf(templateId)?.scopes ?? [];
    const open = this.#o.cache.openScopes(subscription);
    const closed = scopes.filter((scope) => !open.includes(scope));
    if (closed.length === 0) return '';
    return `it was planned with ${closed.join(' and ')}, not in its scopes or not open to its consumer any more`;
  }

  /** Of active subscriptions, blocked ones too. When it cannot be read: the last value. */
  oldestDueSeconds(runMs: RunMs): number {
    const { cache, rows } = this.#o;
    const oldest = this.#tried(() =>
      cache
        .all()
        .reduce(
          (least, { id, active }) => (active ? Math.min(least, rows.sql.earliestDue.get(id) ?? least) : least),
          runMs,
        ),
    );
    if (oldest !== undefined) this.#oldestDueSeconds = (runMs - oldest) / 1_000;
    return this.#oldestDueSeconds;
  }

  /** To count 200,000 waiting deliveries takes some 10 ms. When they cannot be counted: the last counts. */
  counts(): Counts {
    if (!this.#isCounted) {
      this.#counts =
        this.#tried(() => {
          const counts = this.#o.rows.counts();
          this.#isCounted = true;
          return counts;
        }) ?? this.#counts;
    }
    return this.#counts;
  }

  /** Deliveries or subscriptions were changed. */
  recount(): void {
    this.#isCounted = false;
  }

  /** Logged once until a read succeeds. */
  #couldNotRead(thrown: unknown): void {
    const { store, logger } = this.#o;
    const error = store.failure(thrown);
    if (!this.#unreadable) logger.warn('webhook deliveries could not be read', { error: messageOf(error) });
    this.#unreadable = true;
  }

  #tried<T>(read: () => T): T | undefined {
    try {
      return read();
    } catch (error) {
      this.#couldNotRead(error);
      return undefined;
    }
  }
}
