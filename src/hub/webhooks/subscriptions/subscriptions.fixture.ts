/** Subscriptions on a real refdata.db, with a guard, tokens and a planner that do as the test says. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { silentLogger } from '../../../shared/base/logger.ts';
import { author, type TemporaryStore, temporaryStore } from '../../outbox/change-store.fixture.ts';
import type { ChangeStore, ChangeStoreOptions } from '../../outbox/change-store.ts';
import { emitEvent, recordEvent } from '../../outbox/event.fixture.ts';
import type { Scope } from '../../outbox/event.ts';
import { lastOutboxId } from '../../outbox/transaction.ts';
import type { EgressGuard } from '../egress/guard.ts';
import type { Caller, SubscriptionRequest } from '../face.ts';
import type { Consumers } from './cache.ts';
import { openSubscriptions, type Subscriptions, type SubscriptionsOptions } from './subscriptions.ts';

export const admin: Caller = { name: 'anna', scopes: ['PUBLIC'] };
/** Who may read everything. */
export const trusted: Caller = { name: 'anna', scopes: ['PUBLIC', 'INTERNAL', 'RESTRICTED'] };
export const secretText = 'Grüße-an-die-Leitstelle-0815';

export function request(changes: Partial<SubscriptionRequest> = {}): SubscriptionRequest {
  return { name: 'ERP', url: 'https://erp.example/hook', secret: secretText, ...changes };
}

class FakeConsumers implements Consumers {
  readonly tokens = new Map<string, readonly Scope[]>([
    ['anna', ['PUBLIC']],
    ['ivan', ['PUBLIC', 'INTERNAL']],
    ['tess', ['PUBLIC', 'INTERNAL', 'RESTRICTED']],
  ]);
  readonly #listeners: (() => void)[] = [];

  scopesOf(name: string): readonly Scope[] | undefined {
    return this.tokens.get(name);
  }

  isKnown(): boolean {
    return true;
  }

  onChanged(listener: () => void): void {
    this.#listeners.push(listener);
  }

  /** undefined: revoked. */
  set(name: string, scopes: readonly Scope[] | undefined): void {
    if (scopes === undefined) this.tokens.delete(name);
    else this.tokens.set(name, scopes);
    for (const listener of this.#listeners) listener();
  }
}

/** Refuses whatever has "forbidden" in it, for two reasons. */
class FakeEgress implements Pick<EgressGuard, 'faults'> {
  readonly asked: string[] = [];

  async faults(url: string): Promise<readonly string[]> {
    this.asked.push(url);
    return url.includes('forbidden') ? ['the address is not public', 'port 22 is not open'] : [];
  }
}

/** Has planned all there is once it was asked to; `cursor` is only moved by that. */
class FakePlanner {
  at = 0;
  calls = 0;
  /** Done after it has caught up: what is committed before the caller's own change. */
  afterwards: (() => Promise<unknown>) | undefined;
  readonly #store: ChangeStore;

  constructor(store: ChangeStore) {
    this.#store = store;
  }

  async caughtUp(): Promise<void> {
    this.calls += 1;
    this.at = lastEvent(this.#store);
    await this.afterwards?.();
  }

  cursor(): number {
    return this.at;
  }
}

export function lastEvent({ connection }: ChangeStore): number {
  return Number(connection.prepare(`SELECT ${lastOutboxId} FROM progress`).pluck().get());
}

export interface SubscriptionsRig extends TemporaryStore {
  readonly cache: Subscriptions;
  readonly consumers: FakeConsumers;
  readonly egress: FakeEgress;
  readonly planner: FakePlanner;
  readonly keyFile: string;
  readonly running: { ms: number };
  /** Once more on the same file, as after a restart. */
  reopen(changes?: Partial<SubscriptionsOptions>): Subscriptions;
}

export function subscriptionsRig(
  t: TestContext,
  changes: Partial<SubscriptionsOptions> = {},
  ofStore: Partial<ChangeStoreOptions> = {},
): SubscriptionsRig {
  const temporary = temporaryStore(t, ofStore);
  const { store, dir } = temporary;
  const consumers = new FakeConsumers();
  const egress = new FakeEgress();
  const planner = new FakePlanner(store);
  const keyFile = join(dir, 'webhooks.key');
  const running = { ms: 1_000_000 };
  const runningNow = (): number => running.ms;
  const options = { store, egress, consumers, keyFile, runningNow, planner, logger: silentLogger, ...changes };
  const reopen = (more: Partial<SubscriptionsOptions> = {}): Subscriptions =>
    openSubscriptions({ ...options, ...more });
  return { ...temporary, cache: reopen(), consumers, egress, planner, keyFile, running, reopen };
}

/** With subscription 1, the ERP of anna. */
export async function subscribedRig(t: TestContext): Promise<SubscriptionsRig> {
  const rig = subscriptionsRig(t);
  await rig.cache.subscribe(admin, request(), '');
  return rig;
}

export function rowsOf({ store }: TemporaryStore, sql: string): unknown[] {
  return store.connection.prepare(sql).all();
}

export function emit(store: ChangeStore, key: string): Promise<unknown> {
  return store.commit(author, (change) => emitEvent(change, recordEvent(key)));
}

/** All that a refused request must have left as it was. */
export function stateOf(rig: SubscriptionsRig): unknown {
  return {
    rows: rowsOf(rig, 'SELECT * FROM webhook_subscriptions'),
    progress: rowsOf(rig, 'SELECT * FROM webhook_progress'),
    audit: rowsOf(rig, 'SELECT * FROM audit'),
    key: existsSync(rig.keyFile),
    cache: rig.cache.all(),
  };
}
