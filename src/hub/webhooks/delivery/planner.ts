/**
 * Turns committed events into deliveries with their contents; from then on the outbox may remove the events. The cursor moves
 * in the transaction that inserts the deliveries, so a kill at any moment neither loses nor repeats one. Events are read once,
 * however many subscriptions there are.
 */
import { setImmediate } from 'node:timers/promises';
import { LinesideError, messageOf } from '../../../shared/base/errors.ts';
import type { Instant } from '../../../shared/base/instant.ts';
import { FailureLog, Loop } from '../../../shared/base/loop.ts';
import type { WebhookParts } from '../parts.ts';
import { Progress } from '../progress.ts';
import { type StoredBody, storedBody } from './contents.ts';
import type { DeliveryRows, NewDeliveries } from './delivery-rows.ts';
import { type Draft, type EventHead, type Recipients, recipientsIn, TransactionDrafts } from './planning.ts';

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
/** In one commit, about: some 10 ms each, and the flush. */
const batchDeliveries = 4_000;
const batchContents = 1_000;
/** In memory until their commit; many are deflated. */
const batchBytes = 4 * 1024 * 1024;
/** Rendering and deflating so many takes some 2 ms. */
const yieldEvents = 100;
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
    const { store, cache, rows, clock, logger } = options;
    this.#o = options;
    this.#rows = rows;
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
      if (this.#isSaveDue()) {
        // A change of a subscription stores it, too.
        if (this.#progress.cursor() < this.#cursor) await this.#save();
        else this.#isStored(this.#cursor);
      }
      return pollMs;
    } catch (error) {
      throw this.#o.store.failure(error);
    }
  }

  /** True: everything is planned, or the planner is stopped. False: the subscriptions changed meanwhile. */
  async #planAll(): Promise<boolean> {
    this.#recipients ??= recipientsIn(this.#o.cache);
    const recipients = this.#recipients;
    if (recipients.none) {
      this.#passOver(this.#progress.lastEvent());
      return true;
    }
    const plan: Plan = { recipients, drafts: new TransactionDrafts(), batch: new Batch(this.#cursor) };
    for (;;) {
      this.#loop.beat();
      // First: an import commits by a connection of its own.
      const lastEvent = this.#progress.lastEvent();
      const heads = this.#rows.sql.heads.all(plan.batch.upTo, sliceEvents);
      if (!(await this.#add(plan, heads))) return this.#isStopped;
      if (heads.length < sliceEvents) return this.#end(plan, lastEvent);
      if (plan.batch.deliveries === 0 && plan.drafts.isEmpty) this.#passOver(plan.batch.upTo);
      await setImmediate();
      if (this.#isStopped || this.#recipients !== recipients) return this.#isStopped;
    }
  }

  /** As #commit answers. */
  async #add(plan: Plan, heads: readonly EventHead[]): Promise<boolean> {
    const { drafts, recipients } = plan;
    for (const head of heads) {
      if (head.txTime !== plan.batch.txTime && !(await this.#endTransaction(plan))) return false;
      const full = drafts.add(head, recipients.of(head));
      if (full.length > 0) await this.#render(plan.batch, full);
      plan.batch.passed(head);
      // A transaction of very many deliveries: its other events make further ones.
      if (plan.batch.isFull && !(await this.#endTransaction(plan))) return false;
    }
    return true;
  }

  /** Commits when the batch is full. Answers as #commit. */
  async #endTransaction(plan: Plan): Promise<boolean> {
    await this.#render(plan.batch, plan.drafts.end());
    return !plan.batch.isFull || this.#commit(plan);
  }

  /** No event follows up to `lastEvent`: those without recipients may have been removed. */
  async #end(plan: Plan, lastEvent: number): Promise<boolean> {
    if (!(await this.#endTransaction(plan))) return this.#isStopped;
    const { batch } = plan;
    batch.upTo = Math.max(batch.upTo, lastEvent);
    if (batch.deliveries > 0) return (await this.#commit(plan)) || this.#isStopped;
    this.#passOver(batch.upTo);
    return true;
  }

  /** The event loop is free between large ones. */
  async #render(batch: Batch, drafts: readonly Draft[]): Promise<void> {
    for (const { subscriptions, events, scopes } of drafts) {
      const body = this.#body(events);
      const nonce = this.#o.randomHex();
      const content = { nonce, scopes: JSON.stringify([...scopes]), events: events.length, body };
      batch.planned.push({ content, subscriptions });
      batch.deliveries += subscriptions.length;
      batch.bytes += body?.length ?? 0;
      if (events.length >= yieldEvents) await setImmediate();
    }
  }

  /** null: an event is damaged; its deliveries fail, the others are sent. */
  #body(events: readonly number[]): StoredBody | null {
    try {
      return storedBody(events.map((id) => this.#element(id)).join());
    } catch (error) {
      if (!(error instanceof LinesideError)) throw error;
      const about = { firstEvent: events[0], events: events.length, error: error.message };
      this.#o.logger.error('webhook deliveries have no body', about);
      return null;
    }
  }

  #element(id: number): string {
    const element = this.#rows.element(id);
    if (element === undefined) throw new LinesideError('STORAGE_DAMAGED', `outbox event ${id} is lost or damaged`);
    return element;
  }

  /** False: the planner is stopped, or nothing was written because the subscriptions changed after planning. */
  async #commit(plan: Plan): Promise<boolean> {
    const { store, running } = this.#o;
    const { batch, recipients } = plan;
    const { planned, deliveries, upTo } = batch;
    const isWritten = await store.maintain(() => {
      if (this.#recipients !== recipients) return false;
      this.#insert(batch);
      this.#progress.saveCursor(upTo);
      this.#progress.saveRunning(running);
      return true;
    });
    if (!isWritten) return false;
    plan.batch = new Batch(upTo);
    this.#cursor = upTo;
    this.#isStored(upTo);
    this.#total += deliveries;
    this.#onPlanned(new Set(planned.flatMap(({ subscriptions }) => subscriptions.map(({ id }) => id))));
    await setImmediate();
    return !this.#isStopped;
  }

  #insert({ planned }: Batch): void {
    const { store, running, firstDelayS = 0 } = this.#o;
    const occurredAt = store.now();
    const dueRunMs = running.now() + firstDelayS * 1_000;
    const firstId = this.#progress.lastDelivery() + 1;
    this.#progress.saveLastDelivery(this.#rows.insert(planned, firstId, occurredAt, dueRunMs));
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

/** The deliveries of one commit: of whole transactions, unless one has more than fit. */
class Batch {
  readonly planned: NewDeliveries[] = [];
  deliveries = 0;
  bytes = 0;
  /** Events up to this one are planned with it, or have no recipient. */
  upTo: number;
  txTime: Instant | undefined;

  constructor(upTo: number) {
    this.upTo = upTo;
  }

  get isFull(): boolean {
    if (this.deliveries >= batchDeliveries || this.planned.length >= batchContents) return true;
    return this.bytes >= batchBytes;
  }

  passed({ id, txTime }: EventHead): void {
    this.upTo = id;
    this.txTime = txTime;
  }
}

interface Plan {
  readonly recipients: Recipients;
  readonly drafts: TransactionDrafts;
  batch: Batch;
}
