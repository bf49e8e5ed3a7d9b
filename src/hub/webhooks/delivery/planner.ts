/**
 * Turns committed events into deliveries. It reads the outbox behind a cursor, and the cursor moves in the transaction that
 * inserts the deliveries: whatever is killed when, none is lost or planned twice. Events are read once, however many
 * subscriptions there are.
 */
import { backoffMs } from '../../../shared/base/backoff.ts';
import type { Clock, Timer } from '../../../shared/base/clock.ts';
import { LinesideError, messageOf } from '../../../shared/base/errors.ts';
import { Heartbeat } from '../../../shared/base/heartbeat.ts';
import type { Logger } from '../../../shared/base/logger.ts';
import type { ChangeStore } from '../../outbox/change-store.ts';
import type { Scope } from '../../outbox/event.ts';
import { storageError } from '../../outbox/storage-errors.ts';
import type { SubscriptionCache } from '../parts.ts';
import { type RunningTime, saveRunning } from '../running-time.ts';
import { PlannerRows } from './planner-rows.ts';
import { type Draft, Planning } from './planning.ts';
import { type Recipient, RecipientList, type Recipients } from './recipients.ts';

export interface PlannerOptions {
  readonly store: ChangeStore;
  readonly cache: SubscriptionCache;
  readonly running: RunningTime;
  readonly clock: Clock;
  readonly logger: Logger;
  /** 16 hex digits of chance. */
  readonly randomHex: () => string;
  /** Before attempt 1. Default: none. */
  readonly firstDelayS?: number;
}

type PlannedListener = (subscriptionIds: ReadonlySet<number>, count: number) => void;

export interface Planner {
  start(): void;
  /** Ends what is under way and stores the cursor and the running time. Never rejects. */
  stop(): Promise<void>;
  /** All that was committed before is planned. Rejects as ChangeStore.maintain does, and with SHUTTING_DOWN. */
  caughtUp(): Promise<void>;
  /** Throws if its loop has stalled. */
  assertAlive(): void;
  /** Events up to this one are planned, and that is committed. */
  cursor(): number;
  /** Events behind the cursor. Throws STORAGE_FAILED or STORAGE_DAMAGED where refdata.db cannot be read. */
  unplanned(): number;
  /** Deliveries, since the start. */
  plannedTotal(): number;
  /** After each commit: whose they are and how many. */
  onPlanned(listener: PlannedListener): void;
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
/** Without a turn for so long it stands: an import may keep what it writes waiting for two minutes and a bit. */
const stallMs = 180_000;
const firstRetryMs = 1_000;
const maxRetryMs = 60_000;

/** Not started yet. Throws where refdata.db cannot be read. */
export function createPlanner(options: PlannerOptions): Planner {
  return new OutboxPlanner(options);
}

class OutboxPlanner implements Planner {
  readonly #o: PlannerOptions;
  readonly #rows: PlannerRows;
  readonly #recipients: RecipientList;
  readonly #saveRunning: (running: RunningTime) => void;
  readonly #listeners: PlannedListener[] = [];
  readonly #heartbeat: Heartbeat;
  #cursor: number;
  #stored: number;
  /** Since when the cursor is ahead of the stored one; undefined: it is not. */
  #aheadSinceMs: number | undefined;
  #state: 'new' | 'running' | 'stopped' = 'new';
  #timer: Timer | undefined;
  #isWoken = false;
  /** Answers its failure. */
  #pass: Promise<unknown> | undefined;
  #failures = 0;
  #total = 0;

  constructor(options: PlannerOptions) {
    const { store, cache } = options;
    this.#o = options;
    this.#heartbeat = new Heartbeat(options.clock, stallMs);
    this.#rows = new PlannerRows(store.connection);
    this.#recipients = new RecipientList(cache);
    this.#saveRunning = saveRunning(store.connection);
    this.#stored = Math.min(this.#rows.cursor(), this.#rows.lastEvent());
    this.#cursor = this.#stored;
    store.onCommitted(() => this.#wake());
    cache.onChanged(() => this.#wake());
  }

  start(): void {
    if (this.#state !== 'new') return;
    this.#state = 'running';
    this.#heartbeat.beat();
    this.#arm(0);
  }

  async stop(): Promise<void> {
    if (this.#state !== 'running') return;
    this.#state = 'stopped';
    this.#heartbeat.rest();
    this.#timer?.cancel();
    await this.#pass;
    try {
      await this.#save();
    } catch (error) {
      this.#o.logger.warn('the cursor of webhook deliveries could not be stored', { error: messageOf(error) });
    }
  }

  async caughtUp(): Promise<void> {
    const target = this.#lastEvent();
    while (this.#cursor < target) {
      if (this.#state === 'stopped') throw new LinesideError('SHUTTING_DOWN', 'webhook deliveries are planned no more');
      const failure = await this.#run();
      if (failure !== undefined) throw failure;
    }
  }

  assertAlive(): void {
    this.#heartbeat.check();
  }

  cursor(): number {
    return this.#cursor;
  }

  unplanned(): number {
    return Math.max(0, this.#lastEvent() - this.#cursor);
  }

  #lastEvent(): number {
    try {
      return this.#rows.lastEvent();
    } catch (error) {
      throw storageError(error);
    }
  }

  plannedTotal(): number {
    return this.#total;
  }

  onPlanned(listener: PlannedListener): void {
    this.#listeners.push(listener);
  }

  // ---- when

  /** While planning fails, its own retry comes soon enough. */
  #wake(): void {
    if (this.#isWoken || this.#failures > 0) return;
    this.#isWoken = true;
    if (this.#pass === undefined) this.#arm(planDelayMs);
  }

  #arm(delayMs: number): void {
    this.#timer?.cancel();
    if (this.#state === 'running') this.#timer = this.#o.clock.timer(delayMs, () => void this.#run());
  }

  /** One pass at a time. Never rejects. */
  #run(): Promise<unknown> {
    this.#pass ??= this.#attempt().finally(() => {
      this.#pass = undefined;
      if (this.#failures > 0) this.#arm(backoffMs(this.#failures - 1, firstRetryMs, maxRetryMs));
      else this.#arm(this.#isWoken ? planDelayMs : lookMs);
    });
    return this.#pass;
  }

  async #attempt(): Promise<unknown> {
    const { store, logger } = this.#o;
    this.#isWoken = false;
    this.#beat();
    try {
      while (!(await this.#planAll()));
      if (this.#isSaveDue()) await this.#save();
      if (this.#failures > 0) logger.info('webhook deliveries can be planned again');
      this.#failures = 0;
      return undefined;
    } catch (thrown) {
      const error = storageError(thrown);
      if (error instanceof LinesideError && error.code === 'STORAGE_DAMAGED') store.reportDamage(error.message);
      if (this.#failures++ === 0) logger.warn('webhook deliveries could not be planned', { error: messageOf(error) });
      return error;
    }
  }

  #beat(): void {
    if (this.#state === 'running') this.#heartbeat.beat();
  }

  // ---- what

  /** True: all there is is planned, or the planner is stopped. False: the subscriptions have changed meanwhile. */
  async #planAll(): Promise<boolean> {
    this.#beat();
    const recipients = this.#recipients.current();
    const { index } = recipients;
    if (index.none) {
      this.#passOver(this.#rows.lastEvent());
      return true;
    }
    const planning = new Planning<Recipient>(this.#cursor);
    for (;;) {
      // First: an import commits by a connection of its own.
      const lastEvent = this.#rows.lastEvent();
      this.#beat();
      const heads = this.#rows.heads(planning.seenTo, sliceEvents);
      for (const head of heads) {
        planning.add(head, index.of(head));
        if (planning.drafts < commitDeliveries) continue;
        if (!(await this.#commit(planning, recipients))) return false;
        await aTurn();
        if (this.#state === 'stopped') return true;
      }
      const isEnd = heads.length < sliceEvents;
      if (isEnd) planning.end(lastEvent);
      if (planning.drafts === 0) this.#passOver(planning.wholeTo);
      else if (!(await this.#commit(planning, recipients))) return false;
      if (isEnd) return true;
      await aTurn();
      if (this.#state === 'stopped') return true;
      if (!this.#recipients.isCurrent(recipients)) return false;
    }
  }

  /** False: nothing was written, since the subscriptions are not those the deliveries were planned for. */
  async #commit(planning: Planning<Recipient>, recipients: Recipients): Promise<boolean> {
    const { store, running } = this.#o;
    const drafts = planning.claim();
    const upTo = planning.wholeTo;
    const isWritten = await store.maintain(() => {
      if (!this.#recipients.isCurrent(recipients)) return false;
      this.#insert(drafts);
      this.#rows.saveCursor(upTo);
      this.#saveRunning(running);
      return true;
    });
    if (!isWritten) return false;
    this.#cursor = upTo;
    this.#isStored(upTo);
    this.#total += drafts.length;
    const ids = new Set(drafts.map(({ recipient }) => recipient.subscriptionId));
    for (const listener of this.#listeners) listener(ids, drafts.length);
    return true;
  }

  #insert(drafts: readonly Draft<Recipient>[]): void {
    const { store, running, randomHex, firstDelayS = 0 } = this.#o;
    const at = { occurredAt: store.now(), dueRunMs: running.now() + firstDelayS * 1_000 };
    const templateIds = new Map<string, number>();
    for (const { recipient, scopes, firstEvent, lastEvent, events } of drafts) {
      const { subscriptionId } = recipient;
      const key = `${subscriptionId} ${[...scopes].sort().join()}`;
      const templateId = templateIds.get(key) ?? this.#templateOf(recipient, scopes);
      templateIds.set(key, templateId);
      this.#rows.insert({ subscriptionId, templateId, firstEvent, lastEvent, events }, randomHex(), at);
    }
  }

  /**
   * What renders just the events that were planned, also when other scopes are open to the consumer later; and, by their
   * scopes alone, what is sent after others were taken from the subscription.
   */
  #templateOf({ subscription }: Recipient, of: ReadonlySet<Scope>): number {
    const scopes = subscription.scopes.filter((scope) => of.has(scope));
    const isWhole = scopes.length === subscription.scopes.length;
    if (isWhole && this.#rows.hasTemplate(subscription.templateId)) return subscription.templateId;
    return this.#rows.templateFor({ ...subscription, subscriptionId: subscription.id, scopes });
  }

  // ---- the cursor

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
      this.#rows.saveCursor(cursor);
      this.#saveRunning(this.#o.running);
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
