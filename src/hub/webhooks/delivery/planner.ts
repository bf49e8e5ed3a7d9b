/**
 * Turns committed events into deliveries. It reads the outbox behind a cursor, and the cursor moves in the transaction that
 * inserts the deliveries: whatever is killed when, none is lost or planned twice. Events are read once, however many
 * subscriptions there are.
 */
import { LinesideError, messageOf } from '../../../shared/base/errors.ts';
import { FailureLog, Loop } from '../../../shared/base/loop.ts';
import type { Scope } from '../../outbox/event.ts';
import { storageError } from '../../outbox/storage-errors.ts';
import type { WebhookParts } from '../parts.ts';
import { Progress } from '../progress.ts';
import { storeFailure } from '../storage-failure.ts';
import { DeliveryRows } from './delivery-rows.ts';
import { type Draft, Planning, type Recipient, type Recipients, recipientsIn } from './planning.ts';

export interface PlannerOptions extends WebhookParts {
  /** 16 hex digits of chance. */
  readonly randomHex: () => string;
  /** Before attempt 1. Default: none. */
  readonly firstDelayS?: number;
}

/** After a commit; those of a burst become one transaction. */
const planDelayMs = 20;
/** How often the planner looks without being woken. */
const lookMs = 1_000;
/** Heads read at a time: some 2 ms. Then requests have their turn. */
const sliceEvents = 1_000;
/** Whole transactions with so many deliveries are committed before more is read: some 10 ms. */
const commitDeliveries = 1_000;
/** A cursor that has passed over events that are for no subscription is stored when it is so far ahead: less is soon read again, */
const unsavedEvents = 1_000;
/** or for so long. */
const unsavedMs = 600_000;
/** Without a turn for so long it has stalled: an import may keep what it writes waiting for two minutes and a bit. */
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

  /** Not started yet. Throws where refdata.db cannot be read. */
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

  /** Ends what is under way and stores the cursor and the running time. Never rejects. */
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

  /** All that was committed before is planned. Rejects as ChangeStore.maintain does, and with SHUTTING_DOWN. */
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

  /** Events up to this one are planned, and that is committed or lost nothing by not being. */
  cursor(): number {
    return this.#cursor;
  }

  /** Events behind the cursor. Throws STORAGE_FAILED or STORAGE_DAMAGED where refdata.db cannot be read. */
  unplanned(): number {
    return Math.max(0, this.#lastEvent() - this.#cursor);
  }

  #lastEvent(): number {
    try {
      return this.#progress.lastEvent();
    } catch (error) {
      throw storageError(error);
    }
  }

  /** Deliveries, since the start. */
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
      return lookMs;
    } catch (error) {
      throw storeFailure(this.#o.store, error);
    }
  }

  /** True: all there is is planned, or the planner is stopped. False: the subscriptions have changed meanwhile. */
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
        await aTurn();
        if (this.#isStopped) return true;
      }
      const isEnd = heads.length < sliceEvents;
      if (isEnd) planning.end(lastEvent);
      if (planning.drafts === 0) this.#passOver(planning.wholeTo);
      else if (!(await this.#commit(planning, recipients))) return false;
      if (isEnd) return true;
      await aTurn();
      if (this.#isStopped) return true;
      if (this.#recipients !== recipients) return false;
    }
  }

  /** False: nothing was written, since the subscriptions are not those the deliveries were planned for. */
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

  /**
   * What renders just the events that were planned, also when other scopes are open to the consumer later; and, by their
   * scopes alone, what is sent after others were taken from the subscription.
   */
  #templateOf({ subscription }: Recipient, of: ReadonlySet<Scope>): number {
    const { id, templateId } = subscription;
    const scopes = subscription.scopes.filter((scope) => of.has(scope));
    const isWhole = scopes.length === subscription.scopes.length;
    const { bodies } = this.#o;
    if (isWhole && bodies.hasTemplate(templateId)) return templateId;
    return bodies.templateFor(id, { ...subscription, scopes });
  }

  /** Up to there nothing is for anybody. */
  #passOver(upTo: number): void {
    if (upTo <= this.#cursor) return;
    this.#cursor = upTo;
    this.#aheadSinceMs ??= this.#o.clock.monoMs();
  }

  /** Without a subscription nothing would be planned from a cursor that is behind. */
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

/** For requests and whatever else is due. */
function aTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
