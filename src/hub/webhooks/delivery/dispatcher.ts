/**
 * Sends due deliveries to their subscribers: the loop around scheduler, backlog and sender. It wakes when deliveries were
 * planned or resent, when an attempt ended, when the earliest becomes due, and each minute. A result counts when it is
 * committed; after a kill before that the attempt is repeated with the same deliveryId and bytes.
 */
import { endsWithin, type Timer } from '../../../shared/base/clock.ts';
import { type Instant, instantOfMs } from '../../../shared/base/instant.ts';
import { FailureLog, Loop } from '../../../shared/base/loop.ts';
import type { Outcome } from '../egress/outcome.ts';
import type { Sender } from '../egress/sender.ts';
import type { WebhookParts } from '../parts.ts';
import type { RunMs } from '../progress.ts';
import {
  type AttemptResult,
  attemptResultOf,
  DeliveryLog,
  InFlight,
  type Moment,
  Outcomes,
  undeliverable,
  type Written,
} from './attempts.ts';
import { Backlog, type Claim } from './backlog.ts';
import type { PendingDelivery } from './delivery-rows.ts';
import { needsNoRoute, Offline, type OfflineOptions, type OfflineReason } from './offline.ts';
import { FairScheduler, nextOf, responseClassOf } from './schedule.ts';

export interface DispatcherOptions extends WebhookParts, Pick<OfflineOptions, 'online' | 'remotes'> {
  readonly sender: Pick<Sender, 'send' | 'close'>;
  /** Seconds before attempt 1, 2, ..., each from the end of the attempt before. Their number is that of the attempts. */
  readonly scheduleS: readonly number[];
}

interface Began {
  readonly at: Instant;
  readonly monoMs: number;
}

/** Attempts under way and results not committed yet: while storage fails, at most this many are sent again after a kill. */
const inFlightLimit = 256;
/** How long starting attempts, with bodies of up to some MiB, may block the event loop. */
const turnMs = 5;
/** Everything is checked this often even without an event. */
const refreshMs = 60_000;
const stallMs = refreshMs + 30_000;
const stopLimitMs = 5_000;

export class Dispatcher {
  readonly #o: DispatcherOptions;
  readonly #scheduler = new FairScheduler();
  readonly #backlog: Backlog;
  readonly #outcomes: Outcomes;
  readonly #inFlight: InFlight;
  readonly #offline: Offline;
  readonly #log: DeliveryLog;
  readonly #loop: Loop;
  #state: 'new' | 'running' | 'stopped' = 'new';
  #turnAsked = false;
  #deliveredTotal = 0;
  readonly #attemptsTotal = { accepted: 0, dns: 0, timeout: 0, ssrf: 0, tls: 0, connect: 0, http: 0 };
  #timer: Timer | undefined;

  constructor(options: DispatcherOptions) {
    this.#o = options;
    const { clock, logger } = options;
    const failures = new FailureLog(
      logger,
      'webhook deliveries could not be checked',
      'webhook deliveries can be checked again',
    );
    const retry = { retryFirstMs: refreshMs, retryMaxMs: refreshMs };
    this.#loop = new Loop({ pass: () => this.#refreshPeriodically(), failures, clock, stalledMs: stallMs, ...retry });
    this.#backlog = new Backlog(options);
    this.#outcomes = new Outcomes({ ...options, onWritten: (written) => this.#written(written) });
    this.#inFlight = new InFlight(clock);
    this.#log = new DeliveryLog(logger, clock);
    this.#offline = new Offline({ ...options, onChanged: (reason) => this.#offlineChanged(reason) });
    options.cache.onChanged(() => this.#subscriptionsChanged());
  }

  start(): void {
    if (this.#state !== 'new') return;
    this.#state = 'running';
    this.#loop.start(refreshMs);
    this.#wake();
  }

  /** Cancels attempts under way, which stay due, and commits results. At most 5 s. */
  async stop(): Promise<void> {
    if (this.#state !== 'running') return;
    this.#state = 'stopped';
    void this.#loop.stop();
    this.#timer?.cancel();
    this.#offline.stop();
    this.#inFlight.cancel(() => true);
    await endsWithin(this.#o.clock, stopLimitMs, Promise.all([this.#outcomes.stop(), this.#inFlight.end()]));
  }

  /** New or resent deliveries of these subscriptions are committed. */
  planned(subscriptionIds: Iterable<number>): void {
    this.#backlog.recount();
    for (const id of subscriptionIds) this.#backlog.dueFrom(id, 0);
    this.#wake();
  }

  /** Deliveries were removed. */
  dropped(): void {
    this.#backlog.recount();
  }

  /** Throws if its loop has stalled. */
  assertAlive(): void {
    this.#loop.assertAlive();
  }

  /** Deliveries of deleted subscriptions do not count; those of inactive ones are not overdue. */
  status() {
    return {
      ...this.#backlog.counts(),
      oldestDueSeconds: this.#backlog.oldestDueSeconds(this.#o.running.now()),
      inFlight: this.#inFlight.attempts,
      offline: this.#offline.is,
      deliveredTotal: this.#deliveredTotal,
      attemptsTotal: { ...this.#attemptsTotal },
    };
  }

  /** Several calls cause one turn. */
  #wake(): void {
    if (this.#turnAsked || this.#state !== 'running') return;
    this.#turnAsked = true;
    setImmediate(() => {
      this.#turnAsked = false;
      if (this.#state === 'running') this.#turn();
    });
  }

  #turn(): void {
    const { clock, running } = this.#o;
    const endMs = clock.monoMs() + turnMs;
    this.#followSubscriptions();
    while (this.#inFlight.size < inFlightLimit) {
      if (clock.monoMs() >= endMs) return this.#wake();
      const runMs = running.now();
      const id = this.#scheduler.next((one) => this.#backlog.isDue(one, runMs) && this.#isReachable(one));
      if (id === undefined) break;
      const claim = this.#backlog.claim(id, runMs, () => this.#inFlight.of(id));
      if (claim !== undefined) this.#begin(claim);
    }
    this.#arm();
  }

  #isReachable(id: number): boolean {
    return !this.#offline.is || this.#needsNoRoute(id);
  }

  #needsNoRoute(id: number): boolean {
    return needsNoRoute(this.#o.cache.byId(id)?.url ?? '');
  }

  /** Wakes when the next delivery becomes due; the end of an attempt wakes those that are due and wait for a free place. */
  #arm(): void {
    const { clock, running } = this.#o;
    this.#timer?.cancel();
    const runMs = running.now();
    const delayMs = this.#backlog.nextDueAfter(runMs) - runMs;
    if (delayMs < refreshMs) this.#timer = clock.timer(delayMs, () => this.#wake());
  }

  async #refreshPeriodically(): Promise<number> {
    this.#backlog.refreshAll();
    this.#wake();
    if (this.#backlog.counts().waiting > 0) await this.#outcomes.saveSometimes();
    return refreshMs;
  }

  #subscriptionsChanged(): void {
    if (this.#state !== 'running') return;
    this.#backlog.recount();
    this.#backlog.refreshAll();
    // At once: attempts of a subscription that was deactivated are cancelled.
    this.#followSubscriptions();
    this.#wake();
  }

  #followSubscriptions(): void {
    const change = this.#backlog.change();
    if (change === undefined) return;
    this.#log.update(this.#o.cache);
    this.#scheduler.keep(change.ids);
    for (const id of change.halfOpen) this.#scheduler.markHalfOpen(id);
    this.#inFlight.cancel((delivery) => !this.#backlog.serves(delivery));
    for (const id of change.left) this.#o.sender.close(String(id));
  }

  #begin(claim: Claim): void {
    const { delivery } = claim;
    this.#inFlight.add(delivery);
    if ('unavailable' in claim) return this.#outcomes.add(undeliverable(delivery, claim.unavailable, this.#moment()));
    const { secrets, message } = claim;
    const target = { url: claim.subscription.url, agentKey: String(delivery.subscriptionId) };
    const began = { at: this.#moment().at, monoMs: this.#o.clock.monoMs() };
    this.#scheduler.started(delivery.subscriptionId);
    this.#inFlight.begin(
      delivery,
      (signal) => this.#o.sender.send(target, secrets, message, signal),
      (outcome) => this.#ended(delivery, began, outcome),
    );
  }

  #moment(): Moment {
    return { at: instantOfMs(this.#o.clock.wallMs()), runMs: this.#o.running.now() };
  }

  #ended(delivery: PendingDelivery, began: Began, outcome: Outcome | undefined): void {
    if (outcome === undefined) return this.#void(delivery);
    const isHere = this.#needsNoRoute(delivery.subscriptionId);
    if (!isHere && establishedBy(outcome)) this.#offline.reached();
    const ended = this.#moment();
    const next = nextOf(delivery, outcome, ended.runMs, this.#o.scheduleS);
    const attemptResult = attemptResultOf(delivery, outcome, began.at, ended, next);
    if (isHere || !outcome.unreached) return this.#counted(delivery, outcome, attemptResult);
    void this.#offline.ask(began.monoMs).then((isOffline) => {
      if (isOffline || this.#state !== 'running') this.#void(delivery);
      else this.#counted(delivery, outcome, attemptResult);
    });
  }

  #counted(delivery: PendingDelivery, outcome: Outcome, attemptResult: AttemptResult): void {
    this.#scheduler.ended(delivery.subscriptionId, responseClassOf(outcome));
    this.#outcomes.add(attemptResult);
    this.#wake();
  }

  /** It does not count as an attempt: lineside cancelled it, or the device is offline. */
  #void(delivery: PendingDelivery): void {
    this.#scheduler.ended(delivery.subscriptionId, 'void');
    this.#backlog.released(delivery);
    this.#release(delivery, delivery.dueRunMs);
    this.#wake();
  }

  #release(delivery: PendingDelivery, dueRunMs: RunMs): void {
    this.#inFlight.remove(delivery);
    this.#backlog.dueFrom(delivery.subscriptionId, dueRunMs);
  }

  #written(written: readonly Written[]): void {
    const { cache } = this.#o;
    for (const { attemptResult, kept } of written) {
      const { delivery, after } = attemptResult;
      // A delivery that was changed by others is read again at once.
      if (!kept) this.#backlog.released(delivery);
      this.#release(delivery, !kept ? 0 : after.endedAt === null ? after.dueRunMs : Number.POSITIVE_INFINITY);
      if (!kept) continue;
      const subscription = cache.byId(delivery.subscriptionId);
      this.#backlog.recount();
      if (attemptResult.called) this.#attemptsTotal[attemptResult.attempt.cause || 'accepted']++;
      if (after.state === 'delivered') this.#deliveredTotal++;
      if (subscription !== undefined) this.#log.ended(attemptResult, subscription);
    }
    this.#wake();
  }

  #offlineChanged(reason: OfflineReason | undefined): void {
    const { logger } = this.#o;
    if (reason !== undefined) return logger.warn('offline: webhook deliveries wait and use up no attempts', { reason });
    logger.info('online again: webhook deliveries resume');
    this.#scheduler.restart();
    this.#wake();
  }
}

/** Whether a TCP connection was established: an answer came, or TLS failed. */
function establishedBy({ status, cause }: Outcome): boolean {
  return status !== undefined || cause === 'tls';
}
