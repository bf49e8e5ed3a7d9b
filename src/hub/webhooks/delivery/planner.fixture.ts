/** A planner over a real refdata.db, with subscriptions as the test says and deliveries as they would be sent. */
import type { TestContext } from 'node:test';
import type { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { type Logger, silentLogger } from '../../../shared/base/logger.ts';
import { author, recordEvent, type TemporaryStore, temporaryStore } from '../../outbox/change-store.fixture.ts';
import type { ChangeStore } from '../../outbox/change-store.ts';
import type { OutboxEvent, Scope } from '../../outbox/event.ts';
import type { PendingDelivery, Secrets, Subscription, SubscriptionCache } from '../parts.ts';
import { createRunningTime, type RunningTime, storedRunning } from '../running-time.ts';
import { BodySource } from './body-source.ts';
import { createPlanner, type Planner } from './planner.ts';
import { PlannerRows } from './planner-rows.ts';

/** Subscriptions in memory, their body templates in the file. */
export class FakeCache implements SubscriptionCache {
  #all: readonly Subscription[] = [];
  readonly #listeners: ((id: number | undefined) => void)[] = [];
  #open: readonly Scope[] = ['PUBLIC', 'INTERNAL', 'RESTRICTED'];

  all(): readonly Subscription[] {
    return this.#all;
  }

  byId(id: number): Subscription | undefined {
    return this.#all.find((subscription) => subscription.id === id);
  }

  secrets(): Secrets {
    return { current: 'a secret of 16 or more bytes', previous: undefined };
  }

  blocked(): string {
    return '';
  }

  openScopes(subscription: Subscription): readonly Scope[] {
    return this.#open.filter((scope) => subscription.scopes.includes(scope));
  }

  onChanged(listener: (id: number | undefined) => void): void {
    this.#listeners.push(listener);
  }

  /** To every consumer. */
  open(scopes: readonly Scope[]): void {
    this.#open = scopes;
    this.#notify(undefined);
  }

  /** A new one, or another state of one that is there; a body template is made where there is no such one. */
  async put(store: ChangeStore, id: number, changes: Partial<Subscription> = {}): Promise<Subscription> {
    const changed = { ...(this.byId(id) ?? subscription(id)), ...changes };
    const rows = new PlannerRows(store.connection);
    const templateId =
      changes.templateId ?? (await store.maintain(() => rows.templateFor({ ...changed, subscriptionId: id })));
    const put = { ...changed, templateId };
    this.#all = [...this.#all.filter((other) => other.id !== id), put].toSorted((a, b) => a.id - b.id);
    this.#notify(id);
    return put;
  }

  remove(id: number): void {
    this.#all = this.#all.filter((subscription) => subscription.id !== id);
    this.#notify(id);
  }

  #notify(id: number | undefined): void {
    for (const listener of this.#listeners) listener(id);
  }
}

function subscription(id: number): Subscription {
  return {
    id,
    name: `subscription ${id}`,
    url: 'https://example.org/hook',
    consumer: 'anna',
    active: true,
    version: 1,
    templateId: 0,
    afterEvent: 0,
    scopes: ['PUBLIC', 'INTERNAL', 'RESTRICTED'],
    dictionaries: null,
    actions: null,
    categories: null,
  };
}

export interface PlannerRig extends TemporaryStore {
  readonly cache: FakeCache;
  readonly planner: Planner;
}

export function plannerRig(t: TestContext): PlannerRig {
  const temporary = temporaryStore(t);
  const cache = new FakeCache();
  return { ...temporary, cache, planner: plannerOn(temporary.store, cache, temporary.clock) };
}

export function plannerOn(
  store: ChangeStore,
  cache: SubscriptionCache,
  clock: FakeClock,
  logger: Logger = silentLogger,
): Planner {
  let chance = 0;
  const randomHex = (): string => (++chance).toString(16).padStart(16, '0');
  return createPlanner({ store, cache, running: runningOn(store, clock), clock, logger, randomHex });
}

function runningOn(store: ChangeStore, clock: FakeClock): RunningTime {
  return createRunningTime({
    row: storedRunning(store.connection),
    boot: { id: 'boot', monoMs: () => clock.monoMs() },
  });
}

/** In one transaction. */
export function emit(store: ChangeStore, ...events: readonly OutboxEvent[]): Promise<void> {
  return store.commit(author, (tx) => {
    for (const event of events) tx.emit(event);
  });
}

/** A transaction for each key. */
export async function emitEach(store: ChangeStore, keys: Iterable<string>): Promise<void> {
  for (const key of keys) await emit(store, recordEvent(key));
}

export interface StoredDelivery extends PendingDelivery {
  readonly events: number;
}

export function deliveriesIn(store: ChangeStore): readonly StoredDelivery[] {
  return store.connection
    .prepare<[], StoredDelivery>(
      `SELECT id, nonce, subscription_id AS subscriptionId, form_id AS templateId, first_event AS firstEvent,
         last_event AS lastEvent, events, occurred_at AS occurredAt, state, attempts, attempts_before AS attemptsBefore,
         due_run_ms AS dueRunMs FROM webhook_deliveries ORDER BY id`,
    )
    .all();
}

interface SentBody {
  readonly deliveryId: string;
  readonly subscriptionName: string;
  readonly occurredAt: string;
  readonly events: readonly { readonly businessKey?: string; readonly eventType: string }[];
}

/** As its subscriber would read it; undefined: there is no body. */
export function sentOf(store: ChangeStore, delivery: PendingDelivery): SentBody | undefined {
  const body = new BodySource(store.connection).bodyOf(delivery)?.body;
  return body === undefined ? undefined : (JSON.parse(body.toString()) as SentBody);
}

/** "<subscription>: <keys of its events>" of each delivery, in the order of their ids. */
export function sentIn(store: ChangeStore): readonly string[] {
  return deliveriesIn(store).map((delivery) => {
    const keys = sentOf(store, delivery)?.events.map(({ businessKey, eventType }) => businessKey ?? eventType);
    return `${delivery.subscriptionId}: ${keys?.join(' ') ?? 'gone'}`;
  });
}

/** Lets the loop turn until it is so; time does not advance. */
export async function turnsUntil(what: string, isSo: () => boolean): Promise<void> {
  for (let turn = 0; !isSo(); turn++) {
    if (turn > 20_000) throw new Error(`never: ${what}`);
    await new Promise(setImmediate);
  }
}

/** As many turns as anything that is due needs. */
export async function turns(): Promise<void> {
  for (let n = 0; n < 20; n++) await new Promise(setImmediate);
}
