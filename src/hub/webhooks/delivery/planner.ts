/**
 * Turns committed events into deliveries. The cursor moves in the transaction that inserts the deliveries, so a kill at any
 * moment neither loses nor repeats one. Events are read once, however many subscriptions there are.
 */
import { setImmediate } from 'node:timers/promises';
import { LinesideError, messageOf } from '../../../shared/base/errors.ts';
import { FailureLog, Loop } from '../../../shared/base/loop.ts';
import type { Scope } from '../../outbox/event.ts';
import type { WebhookParts } from '../parts.ts';
import { Progress } from '../progress.ts';
import { DeliveryRows } from './delivery-rows.ts';
import { type Draft, Planning, type Recipient, type Recipients, recipientsIn } from './planning.ts';

export interface PlannerOptions extends WebhookParts {
  /** 16 random hex digits. */
  readonly randomHex: () => string;
  /** Before attempt 1. Default: none. */
  readonly firstDelayS?: number;
}

/** After a commit, so that a burst of commits is planned in one transaction. */
const planDelayMs = 20;
/** Polling interval without a wake-up: an import commits by another connection. */
const pollMs = 1_000;
/** Heads read at a time: some 2 ms. Then the event loop is free for requests. */
const sliceEvents = 1_000;
/** Deliveries of whole transactions in one commit: some 10 ms. */
const commitDeliveries = 1_000;
/** A cursor that passed events without recipients is stored when it is so many events or so long ahead: less is soon read again. */
const unsavedEvents = 1_000;
const unsavedMs = 600_000;
/** An import may block its writes for a little more than two minutes. */
const stallMs = 180_000;

export class Planner {
  readonly #o: PlannerOptions;
  readonly #rows: DeliveryRows;
  readonly #progress: Progress;
  /** undefined: they have changed. */
  #recipients: Recipients | undefined;
  #onPlanned: (subscriptionIds: ReadonlySet<number>) => void = () => {};
  readonly #loop: Loop;
  #cursor: number;
  #stored: number;
  /** Since when the cursor is ahead of the stored one; undefined: it is not. */
  #aheadSinceMs: number | undefined;
  #isStopped = false;
  #total = 0;

  /** Throws when refdata.db cannot be read. */
  constructor(options: PlannerOptions) {
    const { store, cache, clock, logger } = options;
    this.#o = options;
    this.#loop = new Loop({
      pass: () => this.#pass(),
      failures: new FailureLog(
        logger,
        'webhook deliveries could not be planned',
        'webhook deliveries can be planned again',
      ),
      clock,
      stalledMs: stallMs,
    });
    this.#rows = new DeliveryRows(store.connection);
    this.#progress = new Progress(store.connection);
    this.#stored = Math.min(this.#progress.cursor(), this.#progress.lastEvent());
    this.#cursor = this.#stored;
    store.onCommitted(() => this.#loop.wake(planDelayMs));
    cache.onChanged(() => {
      this.#recipients = undefined;
      this.#loop.wake(planDelayMs);
    });
  }

  start(): void {
    this.#loop.start();
  }

  /** Completes the pass under way and stores the cursor and the running time. Never rejects. */
  async stop(): Promise<void> {
    if (this.#isStopped) return;
    this.#isStopped = true;
    await this.#loop.stop();
    try {
      await this.#save();
    } catch (error) {
      this.#o.logger.warn('the cursor of webhook deliveries could not be stored', { error: messageOf(error) });
    }
  }

  /** Resolves when all events committed before are planned. Rejects as ChangeStore.maintain does, and with SHUTTING_DOWN. */
  async caughtUp(): Promise<void> {
    const target = this.#lastEvent();
    while (this.#cursor < target) {
      if (this.#isStopped) throw new LinesideError('SHUTTING_DOWN', 'webhook deliveries are planned no more');
      await this.#loop.passNow();
    }
  }

  /** Throws if its loop has stalled. */
  assertAlive(): void {
    this.#loop.assertAlive();
  }

  /** Events up to this one are planned; what a kill takes back had no recipients. */
  cursor(): number {
    return this.#cursor;
  }

  /** Number of events behind the cursor. Throws STORAGE_FAILED, STORAGE_DAMAGED. */
  unplanned(): number {
    return Math.max(0, this.#lastEvent() - this.#cursor);
  }

  #lastEvent(): number {
    return this.#o.store.read(() => this.#progress.lastEvent());
  }

  /** Deliveries since the start. */
  plannedTotal(): number {
    return this.#total;
  }

  /** Called after each commit, with the ids of the subscriptions that have new deliveries. */
  onPlanned(listener: (subscriptionIds: ReadonlySet<number>) => void): void {
    this.#onPlanned = listener;
  }

  async #pass(): Promise<number> {
    try {
      while (!(await this.#planAll()));
      if (this.#isSaveDue()) await this.#save();
      return pollMs;
    } catch (error) {
      throw this.#o.store.failure(error);
    }
  }

  /** True: everything is planned, or the planner is stopped. False: the subscriptions changed meanwhile. */
  async #planAll(): Promise<boolean> {
    this.#loop.beat();
    this.#recipients ??= recipientsIn(this.#o.cache);
    const recipients = this.#recipients;
    if (recipients.none) {
      this.#passOver(this.#progress.lastEvent());
      return true;
    }
    const planning = new Planning(this.#cursor);
    for (;;) {
      // First: an import commits by a connection of its own.
      const lastEvent = this.#progress.lastEvent();
      this.#loop.beat();
      const heads = this.#rows.sql.heads.all(planning.seenTo, sliceEvents);
      for (const head of heads) {
        planning.add(head, recipients.of(head));
        if (planning.drafts < commitDeliveries) continue;
        if (!(await this.#commit(planning, recipients))) return false;
        await setImmediate();
        if (this.#isStopped) return true;
      }
      const isEnd = heads.length < sliceEvents;
      if (isEnd) planning.end(lastEvent);
      if (planning.drafts === 0) this.#passOver(planning.wholeTo);
      else if (!(await this.#commit(planning, recipients))) return false;
      if (isEnd) return true;
      await setImmediate();
      if (this.#isStopped) return true;
      if (this.#recipients !== recipients) return false;
    }
  }

  /** False: nothing was written, because the subscriptions changed after planning. */
  async #commit(planning: Planning, recipients: Recipients): Promise<boolean> {
    const { store, running } = this.#o;
    const drafts = planning.claim();
    const upTo = planning.wholeTo;
    const isWritten = await store.maintain(() => {
      if (this.#recipients !== recipients) return false;
      this.#insert(drafts);
      this.#progress.saveCursor(upTo);
      this.#progress.saveRunning(running);
      return true;
    });
    if (!isWritten) return false;
    this.#cursor = upTo;
    this.#isStored(upTo);
    this.#total += drafts.length;
    this.#onPlanned(new Set(drafts.map(({ recipient }) => recipient.subscription.id)));
    return true;
  }

  #insert(drafts: readonly Draft[]): void {
    const { store, running, randomHex, firstDelayS = 0 } = this.#o;
    const at = { occurredAt: store.now(), dueRunMs: running.now() + firstDelayS * 1_000 };
    const templateIds = new Map<string, number>();
    for (const { recipient, scopes, firstEvent, lastEvent, events } of drafts) {
      const subscriptionId = recipient.subscription.id;
      const key = `${subscriptionId} ${[...scopes].sort().join()}`;
      const templateId = templateIds.get(key) ?? this.#templateOf(recipient, scopes);
      templateIds.set(key, templateId);
      this.#rows.sql.insert.run({
        ...at,
        subscriptionId,
        templateId,
        firstEvent,
        lastEvent,
        events,
        nonce: randomHex(),
      });
    }
  }

  /** Renders exactly the planned events, whatever scopes are open to the consumer, or kept by the subscription, later. */
  #templateOf({ subscription }: Recipient, of: ReadonlySet<Scope>): number {
    const { id, templateId } = subscription;
    const scopes = subscription.scopes.filter((scope) => of.has(scope));
    const isWhole = scopes.length === subscription.scopes.length;
    const { bodies } = this.#o;
    if (isWhole && bodies.hasTemplate(templateId)) return templateId;
    return bodies.templateFor(id, { ...subscription, scopes });
  }

  /** No event up to there has a recipient. */
  #passOver(upTo: number): void {
    if (upTo <= this.#cursor) return;
    this.#cursor = upTo;
    this.#aheadSinceMs ??= this.#o.clock.monoMs();
  }

  /** Without subscriptions a stored cursor that is behind plans nothing. */
  #isSaveDue(): boolean {
    if (this.#aheadSinceMs === undefined || this.#o.cache.all().length === 0) return false;
    const forMs = this.#o.clock.monoMs() - this.#aheadSinceMs;
    return this.#cursor - this.#stored >= unsavedEvents || forMs >= unsavedMs;
  }

  async #save(): Promise<void> {
    const cursor = this.#cursor;
    await this.#o.store.maintain(() => {
      this.#progress.saveCursor(cursor);
      this.#progress.saveRunning(this.#o.running);
    });
    this.#isStored(cursor);
  }

  #isStored(cursor: number): void {
    this.#stored = cursor;
    this.#aheadSinceMs = undefined;
  }
}
