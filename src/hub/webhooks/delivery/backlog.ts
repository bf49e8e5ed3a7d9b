/**
 * What waits, as the dispatcher reads it: one delivery at a time when it is taken, however many there are. Whose turn it is
 * it does not know. What cannot be read is tried again later, for each subscription separately.
 */
import { messageOf } from '../../../shared/base/errors.ts';
import type { Message } from '../egress/sender.ts';
import type { WebhookParts } from '../parts.ts';
import type { RunMs } from '../progress.ts';
import { storeFailure } from '../storage-failure.ts';
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
  /** It cannot be sent, and why. */
  | { readonly delivery: PendingDelivery; readonly unavailable: string };

export interface Change {
  /** To whom anything is sent from now on, ascending. */
  readonly ids: readonly number[];
  /** Nothing is sent to them any more. */
  readonly left: readonly number[];
  /** New among them, and what they have waiting was tried in vain before. */
  readonly halfOpen: readonly number[];
}

/** The cache blocks a subscription whose secret cannot be read; where it does not yet, it is asked again after so long. */
const unreadableSecretMs = 60_000;
/** Deliveries read at a time, of each subscription: to read one passes over all in hand, which is half of what a delivery costs. */
const readAhead = 16;

export class Backlog {
  readonly #o: BacklogOptions;
  /** To whom anything is sent. */
  #served = new Map<number, Subscription>();
  readonly #nextDue = new NextDueCache();
  /** Read and not taken yet. */
  readonly #ahead = new Map<number, readonly PendingDelivery[]>();
  #stale = true;
  #counts: Counts = { waiting: 0, rejected: 0, failed: 0 };
  #isCounted = false;
  /** The file could not be read, and that was said. */
  #unreadable = false;
  #oldestDueSeconds = 0;

  constructor(options: BacklogOptions) {
    this.#o = options;
  }

  /** Everything is read again: the subscriptions may have changed. */
  refreshAll(): void {
    this.#stale = true;
    this.#ahead.clear();
    this.#nextDue.all();
  }

  /** Something of it waits since now. */
  refresh(id: number, runMs: RunMs = 0): void {
    this.#nextDue.notLaterThan(id, runMs);
  }

  /** undefined: it has not changed since. */
  change(): Change | undefined {
    if (!this.#stale) return undefined;
    this.#stale = false;
    const { cache, rows } = this.#o;
    const before = [...this.#served.keys()];
    const served = cache.all().filter((subscription) => subscription.active && cache.blocked(subscription) === '');
    this.#served = new Map(served.map((subscription) => [subscription.id, subscription]));
    const ids = served.map(({ id }) => id);
    const left = before.filter((id) => !this.#served.has(id));
    const halfOpen = this.#nextDue
      .keep(ids)
      .filter((id) => this.#tried(() => rows.sql.latestState.get(id)) === 'retrying');
    return { ids, left, halfOpen };
  }

  /** Whether what is under way may still be. */
  serves(delivery: PendingDelivery): boolean {
    const subscription = this.#served.get(delivery.subscriptionId);
    return subscription !== undefined && (this.#tried(() => this.#closedTo(subscription, delivery)) ?? '') === '';
  }

  isDue(id: number, runMs: RunMs): boolean {
    return this.#nextDue.isDue(id, runMs);
  }

  /** When something becomes due that is not yet; Infinity: never. */
  nextAfter(runMs: RunMs): RunMs {
    return this.#nextDue.nextAfter(runMs);
  }

  /** What is due first and not in hand. undefined: nothing is due now. */
  claim(id: number, runMs: RunMs, inFlight: readonly number[]): Claim | undefined {
    try {
      const delivery = this.#first(id, runMs, inFlight);
      this.#nextDue.from(id, delivery?.dueRunMs ?? Number.POSITIVE_INFINITY);
      const claim = delivery === undefined || delivery.dueRunMs > runMs ? undefined : this.#made(delivery, runMs);
      this.#nextDue.succeeded(id);
      this.#unreadable = false;
      return claim;
    } catch (error) {
      this.#nextDue.failed(id, runMs);
      this.#couldNotRead(error);
      return undefined;
    }
  }

  /** What is due first, also when that is not yet. Those that are due already and were read with it are taken next. */
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
      this.#nextDue.from(id, runMs + unreadableSecretMs);
      return undefined;
    }
    const closed = this.#closedTo(subscription, delivery);
    const made = closed === '' ? bodies.bodyOf(delivery) : { unavailable: closed };
    if ('unavailable' in made) return { delivery, ...made };
    return { delivery, subscription, secrets, message: { deliveryId: deliveryIdOf(delivery), ...made } };
  }

  /**
   * '' where it may have what was planned. A subscription is blocked while all its scopes are closed to its consumer; where
   * some are, or were taken from it (its URL may have been changed with them), what was planned before still holds them.
   */
  #closedTo(subscription: Subscription, { templateId }: PendingDelivery): string {
    const scopes = this.#o.bodies.templateOf(templateId)?.scopes ?? [];
    const open = this.#o.cache.openScopes(subscription);
    const closed = scopes.filter((scope) => !open.includes(scope));
    if (closed.length === 0) return '';
    return `it was planned with ${closed.join(' and ')}, not in its scopes or not open to its consumer any more`;
  }

  /** Of the active ones, also while something else keeps them from being sent. Where it cannot be read: as before. */
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

  /** Said once, until it can be read again; damage is the store's to know. */
  #couldNotRead(thrown: unknown): void {
    const { store, logger } = this.#o;
    const error = storeFailure(store, thrown);
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
