/** A planner over a real refdata.db, with subscriptions as the test says and deliveries as they would be sent. */
import type { TestContext } from 'node:test';
import type { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { type Logger, silentLogger } from '../../../shared/base/logger.ts';
import { author, type TemporaryStore, temporaryStore } from '../../outbox/change-store.fixture.ts';
import type { ChangeStore } from '../../outbox/change-store.ts';
import { emitEvent, recordEvent, type WholeEvent } from '../../outbox/event.fixture.ts';
import type { Scope } from '../../outbox/event.ts';
import { Progress, RunningTime } from '../progress.ts';
import type { SubscriptionSource } from '../subscriptions/cache.ts';
import type { Secrets, Subscription } from '../subscriptions/subscription.ts';
import { DeliveryRows, deliveries, type PendingDelivery, pendingColumns } from './delivery-rows.ts';
import { Planner } from './planner.ts';

/** Subscriptions in memory. */
export class FakeCache implements SubscriptionSource {
  #all: readonly Subscription[] = [];
  readonly #listeners: ((id: number | undefined) => void)[] = [];
  readonly #blocked = new Map<number, string>();
  current = 'a secret of 16 or more bytes';
  /** Why the secrets cannot be read; '': they can. */
  unreadable = '';
  #open: readonly Scope[] = ['PUBLIC', 'INTERNAL', 'RESTRICTED'];

  all(): readonly Subscription[] {
    return this.#all;
  }

  byId(id: number): Subscription | undefined {
    return this.#all.find((subscription) => subscription.id === id);
  }

  secrets(): Secrets | { readonly unreadable: string } {
    return this.unreadable === '' ? { current: this.current, previous: undefined } : { unreadable: this.unreadable };
  }

  blocked({ id }: Subscription): string {
    return this.#blocked.get(id) ?? '';
  }

  block(id: number, why: string): void {
    this.#blocked.set(id, why);
    this.#notify(undefined);
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

  /** A new one, or another state of one that is there. */
  put(id: number, changes: Partial<Subscription> = {}): Subscription {
    const put = { ...(this.byId(id) ?? subscription(id)), ...changes };
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

/** `changes`: with subscription 1. */
export function plannerRig(t: TestContext, changes?: Partial<Subscription>): PlannerRig {
  const temporary = temporaryStore(t);
  const cache = new FakeCache();
  if (changes !== undefined) cache.put(1, changes);
  return { ...temporary, cache, planner: plannerOn(temporary.store, cache, temporary.clock) };
}

export function plannerOn(
  store: ChangeStore,
  cache: SubscriptionSource,
  clock: FakeClock,
  logger: Logger = silentLogger,
): Planner {
  let chance = 0;
  const randomHex = (): string => (++chance).toString(16).padStart(16, '0');
  const rows = new DeliveryRows(store.connection);
  return new Planner({ store, cache, rows, running: runningOn(store, clock), clock, logger, randomHex });
}

/** The machine has been up all the time. */
export function runningOn({ connection }: ChangeStore, clock: FakeClock): RunningTime {
  return new RunningTime(new Progress(connection).running(), { id: 'boot', monoMs: () => clock.monoMs() });
}

/** In one transaction. */
export function emit(store: ChangeStore, ...events: readonly WholeEvent[]): Promise<void> {
  return store.commit(author, (tx) => {
    for (const event of events) emitEvent(tx, event);
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
    .prepare<[], StoredDelivery>(`SELECT ${pendingColumns}, events FROM ${deliveries} ORDER BY d.id`)
    .all();
}

interface SentBody {
  readonly deliveryId: string;
  readonly subscriptionName: string;
  readonly occurredAt: string;
  readonly events: readonly { readonly businessKey?: string; readonly eventType: string }[];
}

/** As its subscriber would read it; undefined: there is no body. */
export function sentOf(
  store: ChangeStore,
  delivery: PendingDelivery,
  rows = new DeliveryRows(store.connection),
): SentBody | undefined {
  const body = rows.bodyOf(delivery);
  return 'unavailable' in body ? undefined : (JSON.parse(body.toString()) as SentBody);
}

/** "<subscription>: <keys of its events>" of each delivery, in the order of their ids. */
export function sentIn(store: ChangeStore): readonly string[] {
  const rows = new DeliveryRows(store.connection);
  return deliveriesIn(store).map((delivery) => {
    const keys = sentOf(store, delivery, rows)?.events.map(({ businessKey, eventType }) => businessKey ?? eventType);
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
