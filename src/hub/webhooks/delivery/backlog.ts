/**
 * Waiting deliveries, read one at a time when the dispatcher claims them, however many there are. The scheduler chooses the
 * subscription. A read that fails is retried later, for each subscription separately.
 */
import { backoffMs } from '../../../shared/base/backoff.ts';
import { messageOf } from '../../../shared/base/errors.ts';
import type { Message } from '../egress/sender.ts';
import type { WebhookParts } from '../parts.ts';
import type { RunMs } from '../progress.ts';
import type { Secrets, Subscription } from '../subscriptions/subscription.ts';
import { deliveryIdOf } from './contents.ts';
import type { Counts, NextParameters, PendingDelivery } from './delivery-rows.ts';

export type Claim =
  | {
      readonly delivery: PendingDelivery;
      readonly subscription: Subscription;
      readonly secrets: Secrets;
      readonly message: Message;
    }
  /** It cannot be sent. */
  | { readonly delivery: PendingDelivery; readonly unavailable: string };

/** A subscription that is active and not blocked. */
interface Served {
  readonly subscription: Subscription;
  /** Nothing of it is due before: an idle one costs no read. 0: at once. Infinity: nothing waits. */
  fromRunMs: RunMs;
  /** Nothing that was attempted before is due before, likewise. */
  againFromRunMs: RunMs;
  /** Consecutive failed reads. */
  failures: number;
  /** Never attempted ones that were read and not claimed yet. */
  ahead: PendingDelivery[];
  /** Never attempted ones up to this id are read ahead, in flight or of other subscriptions. */
  readTo: number;
}

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
/** After a failed read. */
const firstRetryMs = 1_000;
const longestRetryMs = 60_000;

export class Backlog {
  readonly #o: WebhookParts;
  #served: ReadonlyMap<number, Served> = new Map();
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
    for (const served of this.#served.values()) {
      served.againFromRunMs = 0;
      if (served.failures === 0) served.fromRunMs = 0;
    }
  }

  isDue(id: number, runMs: RunMs): boolean {
    return (this.#served.get(id)?.fromRunMs ?? Number.POSITIVE_INFINITY) <= runMs;
  }

  /** Something of it may be due from then on. */
  dueFrom(id: number, runMs: RunMs): void {
    const served = this.#served.get(id);
    if (served === undefined) return;
    served.fromRunMs = Math.min(served.fromRunMs, runMs);
    served.againFromRunMs = Math.min(served.againFromRunMs, runMs);
  }

  /** Infinity: nothing becomes due later. */
  nextDueAfter(runMs: RunMs): RunMs {
    const later = [...this.#served.values()].filter(({ fromRunMs }) => fromRunMs > runMs);
    return Math.min(...later.map(({ fromRunMs }) => fromRunMs));
  }

  /** undefined: nothing changed since the last call. */
  change(): Change | undefined {
    if (!this.#stale) return undefined;
    this.#stale = false;
    const { cache, rows } = this.#o;
    const before = this.#served;
    const unread = { fromRunMs: 0, againFromRunMs: 0, failures: 0, ahead: [], readTo: 0 };
    this.#served = new Map(
      cache
        .all()
        .filter((subscription) => subscription.active && cache.blocked(subscription) === '')
        .map((subscription) => [subscription.id, { ...unread, ...before.get(subscription.id), subscription }]),
    );
    const ids = [...this.#served.keys()];
    const left = [...before.keys()].filter((id) => !this.#served.has(id));
    const added = [...this.#served.values()].filter(({ subscription }) => !before.has(subscription.id));
    this.#find(added);
    const halfOpen = added
      .map(({ subscription }) => subscription.id)
      .filter((id) => this.#tried(() => rows.sql.latestState.get(id)) === 'retrying');
    return { ids, left, halfOpen };
  }

  /** Where the never attempted ones of these subscriptions begin. */
  #find(added: readonly Served[]): void {
    if (added.length === 0) return;
    const { sql } = this.#o.rows;
    const found = this.#tried(() => ({ first: sql.firstNew.all(), newest: sql.newest.get() ?? 0 }));
    if (found === undefined) return;
    const first = new Map(found.first.map(({ subscriptionId, id }) => [subscriptionId, id]));
    for (const served of added) served.readTo = (first.get(served.subscription.id) ?? found.newest + 1) - 1;
  }

  /** It waits again, as before: its attempt does not count, or it was changed by others. */
  released({ id, subscriptionId, attempts }: PendingDelivery): void {
    const served = this.#served.get(subscriptionId);
    if (attempts > 0 || served === undefined) return;
    served.ahead = [];
    served.readTo = Math.min(served.readTo, id - 1);
  }

  /** Whether an attempt under way may continue. */
  serves(delivery: PendingDelivery): boolean {
    const served = this.#served.get(delivery.subscriptionId);
    return served !== undefined && this.#closedTo(served.subscription, delivery) === '';
  }

  /** The first due delivery that is not in flight; undefined: none is due. `inFlight`: of this subscription. */
  claim(id: number, runMs: RunMs, inFlight: () => readonly number[]): Claim | undefined {
    const served = this.#served.get(id);
    if (served === undefined) return undefined;
    try {
      const delivery = this.#first(served, runMs, inFlight);
      served.fromRunMs = Math.min(served.againFromRunMs, delivery?.dueRunMs ?? Number.POSITIVE_INFINITY);
      const claim =
        delivery === undefined || delivery.dueRunMs > runMs ? undefined : this.#made(served, delivery, runMs);
      if (claim !== undefined && served.ahead[0] === delivery) served.ahead.shift();
      served.failures = 0;
      this.#unreadable = false;
      return claim;
    } catch (error) {
      served.fromRunMs = runMs + backoffMs(served.failures++, firstRetryMs, longestRetryMs);
      this.#couldNotRead(error);
      return undefined;
    }
  }

  /** The next delivery, due or not; of those that were attempted before only a due one. */
  #first(served: Served, runMs: RunMs, inFlight: () => readonly number[]): PendingDelivery | undefined {
    const of = () => ({ subscriptionId: served.subscription.id, except: JSON.stringify(inFlight()) });
    const again = served.againFromRunMs <= runMs ? this.#readAgain(served, of()) : undefined;
    if (served.ahead.length === 0) this.#readAhead(served, of());
    const [fresh] = served.ahead;
    return again === undefined || (fresh !== undefined && fresh.dueRunMs < again.dueRunMs) ? fresh : again;
  }

  #readAgain(served: Served, of: NextParameters): PendingDelivery | undefined {
    const again = this.#o.rows.sql.again.get(of);
    served.againFromRunMs = again?.dueRunMs ?? Number.POSITIVE_INFINITY;
    return again;
  }

  #readAhead(served: Served, of: NextParameters): void {
    const { sql } = this.#o.rows;
    served.ahead = sql.new.all({ ...of, after: served.readTo, limit: readAhead });
    const isAll = served.ahead.length < readAhead;
    served.readTo = Math.max(served.readTo, (isAll ? sql.newest.get() : served.ahead.at(-1)?.id) ?? 0);
  }

  #made(served: Served, delivery: PendingDelivery, runMs: RunMs): Claim | undefined {
    const { cache, rows } = this.#o;
    const { subscription } = served;
    const secrets = cache.secrets(subscription.id, runMs);
    if ('unreadable' in secrets) {
      served.fromRunMs = runMs + unreadableSecretMs;
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
