/**
 * Waiting deliveries, read one at a time when the dispatcher claims them, however many there are. The scheduler chooses the
 * subscription. A read that fails is retried later, for each subscription separately.
 */
import { messageOf } from '../../../shared/base/errors.ts';
import type { Message } from '../egress/sender.ts';
import type { WebhookParts } from '../parts.ts';
import type { RunMs } from '../progress.ts';
import type { Secrets, Subscription } from '../subscriptions/subscription.ts';
import { deliveryIdOf } from './contents.ts';
import type { Counts, PendingDelivery } from './delivery-rows.ts';
import { NextDueCache } from './schedule.ts';

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
/** Read ahead for each subscription: each read passes over all in flight, half of the cost of a delivery. */
const readAhead = 16;

export class Backlog {
  readonly #o: WebhookParts;
  /** Active and not blocked. */
  #served = new Map<number, Subscription>();
  readonly nextDue = new NextDueCache();
  /** Never attempted ones that were read and not claimed yet. */
  readonly #ahead = new Map<number, PendingDelivery[]>();
  /** Never attempted ones up to this id are read ahead, in flight or of other subscriptions. */
  readonly #readTo = new Map<number, number>();
  /** No never attempted one of an active subscription is older. */
  #oldest = 0;
  #stale = true;
  #counts: Counts = { waiting: 0, rejected: 0, failed: 0 };
  #isCounted = false;
  /** The failure is logged. */
  #unreadable = false;
  #oldestDueSeconds = 0;

  constructor(options: WebhookParts) {
    this.#o = options;
  }

  refreshAll(): void {
    this.#stale = true;
    this.#oldest = 0;
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
    for (const id of left) for (const read of [this.#ahead, this.#readTo]) read.delete(id);
    const added = this.nextDue.keep(ids);
    this.#find(added);
    const halfOpen = added.filter((id) => this.#tried(() => rows.sql.latestState.get(id)) === 'retrying');
    return { ids, left, halfOpen };
  }

  /** Where the never attempted ones of these subscriptions begin. */
  #find(ids: readonly number[]): void {
    const { sql } = this.#o.rows;
    const found =
      ids.length === 0 ? undefined : this.#tried(() => ({ first: sql.firstNew.all(), newest: sql.newest.get() ?? 0 }));
    const first = new Map(found?.first.map(({ subscriptionId, id }) => [subscriptionId, id]));
    for (const id of ids) this.#readTo.set(id, found === undefined ? 0 : (first.get(id) ?? found.newest + 1) - 1);
  }

  /** It waits again, as before: its attempt does not count, or it was changed by others. */
  released({ id, subscriptionId, attempts }: PendingDelivery): void {
    const readTo = this.#readTo.get(subscriptionId);
    if (attempts > 0 || readTo === undefined) return;
    this.#ahead.delete(subscriptionId);
    this.#readTo.set(subscriptionId, Math.min(readTo, id - 1));
  }

  /** Whether an attempt under way may continue. */
  serves(delivery: PendingDelivery): boolean {
    const subscription = this.#served.get(delivery.subscriptionId);
    return subscription !== undefined && this.#closedTo(subscription, delivery) === '';
  }

  /** The first due delivery that is not in flight; undefined: none is due. */
  claim(id: number, runMs: RunMs, inFlight: readonly number[]): Claim | undefined {
    try {
      const delivery = this.#first(id, inFlight);
      this.nextDue.from(id, delivery?.dueRunMs ?? Number.POSITIVE_INFINITY);
      const claim = delivery === undefined || delivery.dueRunMs > runMs ? undefined : this.#made(delivery, runMs);
      const ahead = this.#ahead.get(id);
      if (claim !== undefined && ahead?.[0] === delivery) ahead?.shift();
      this.nextDue.succeeded(id);
      this.#unreadable = false;
      return claim;
    } catch (error) {
      this.nextDue.failed(id, runMs);
      this.#couldNotRead(error);
      return undefined;
    }
  }

  /** The next delivery, due or not. */
  #first(subscriptionId: number, inFlight: readonly number[]): PendingDelivery | undefined {
    const of = { subscriptionId, except: JSON.stringify(inFlight) };
    const again = this.#o.rows.sql.again.get(of);
    const [fresh] = this.#new(of);
    return again === undefined || (fresh !== undefined && fresh.dueRunMs < again.dueRunMs) ? fresh : again;
  }

  #new(of: { readonly subscriptionId: number; readonly except: string }): readonly PendingDelivery[] {
    const { subscriptionId } = of;
    const ahead = this.#ahead.get(subscriptionId);
    if (ahead !== undefined && ahead.length > 0) return ahead;
    const { sql } = this.#o.rows;
    const after = this.#readTo.get(subscriptionId) ?? 0;
    const found = sql.new.all({ ...of, after, limit: readAhead });
    const isAll = found.length < readAhead;
    this.#readTo.set(subscriptionId, Math.max(after, (isAll ? sql.newest.get() : found.at(-1)?.id) ?? 0));
    this.#ahead.set(subscriptionId, found);
    return found;
  }

  #made(delivery: PendingDelivery, runMs: RunMs): Claim | undefined {
    const { cache, rows } = this.#o;
    const id = delivery.subscriptionId;
    const subscription = this.#served.get(id);
    const secrets = cache.secrets(id, runMs);
    if (subscription === undefined || 'unreadable' in secrets) {
      this.nextDue.from(id, runMs + unreadableSecretMs);
      return undefined;
    }
    const closed = this.#closedTo(subscription, delivery);
    const body = closed === '' ? rows.bodyOf(delivery) : { unavailable: closed };
    if ('unavailable' in body) return { delivery, ...body };
    const { subscriptionName } = delivery;
    return { delivery, subscription, secrets, message: { deliveryId: deliveryIdOf(delivery), subscriptionName, body } };
  }

  /**
   * Reason why the subscription must not receive this delivery; '': none. A delivery that was planned earlier may hold scopes
   * that the subscription (perhaps with another URL now) or its consumer has lost since.
   */
  #closedTo(subscription: Subscription, { scopes }: PendingDelivery): string {
    const open: readonly string[] = this.#o.cache.openScopes(subscription);
    const closed = (JSON.parse(scopes) as string[]).filter((scope) => !open.includes(scope));
    if (closed.length === 0) return '';
    return `it was planned with ${closed.join(' and ')}, not in its scopes or not open to its consumer any more`;
  }

  /** Of active subscriptions, blocked ones too. When it cannot be read: the last value. */
  oldestDueSeconds(runMs: RunMs): number {
    const { cache, rows } = this.#o;
    const oldest = this.#tried(() => {
      const active = cache.all().flatMap(({ id, active }) => (active ? [id] : []));
      const fresh = rows.sql.oldestNew.get(this.#oldest, JSON.stringify(active));
      this.#oldest = fresh?.id ?? rows.sql.newest.get() ?? 0;
      return active.reduce(
        (least, id) => Math.min(least, rows.sql.earliestAgain.get(id) ?? least),
        Math.min(runMs, fresh?.dueRunMs ?? runMs),
      );
    });
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
