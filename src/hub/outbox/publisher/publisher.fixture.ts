/** A publisher over a real refdata.db and a broker in memory. */
import type { TestContext } from 'node:test';
import type { Clock } from '../../../shared/base/clock.ts';
import type { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../../shared/base/logger.ts';
import { author, recordEvent, type TemporaryStore, temporaryStore } from '../change-store.fixture.ts';
import type { ChangeStore } from '../change-store.ts';
import { FakeBroker } from './broker.fixture.ts';
import { Publisher, type PublisherOptions } from './publisher.ts';

export interface Rig extends TemporaryStore {
  readonly broker: FakeBroker;
  readonly publisher: Publisher;
}

export function rigFor(t: TestContext, changes: Partial<PublisherOptions> = {}): Rig {
  const temporary = temporaryStore(t);
  const broker = new FakeBroker();
  return { ...temporary, broker, publisher: publisherOn(temporary.store, broker, temporary.clock, changes) };
}

export function publisherOn(
  store: ChangeStore,
  broker: FakeBroker | undefined,
  clock: Clock,
  changes: Partial<PublisherOptions> = {},
): Publisher {
  return new Publisher({
    store,
    broker,
    topicOf: (scope) => `refdata.${scope.toLowerCase()}`,
    deviceId: 'box-1',
    maxAttempts: 1_000,
    inFlightBytes: 4 * 1024 * 1024,
    keepPublishedDays: 7,
    clock,
    logger: silentLogger,
    ...changes,
  });
}

/** A transaction for each name; versions are counted by key. */
export async function change(
  store: ChangeStore,
  keys: Iterable<string>,
  versions = new Map<string, number>(),
): Promise<void> {
  for (const key of keys) {
    const version = (versions.get(key) ?? 0) + 1;
    versions.set(key, version);
    await store.commit(author, (tx) => tx.emit(recordEvent(key, version)));
  }
}

/** "k0", "k1", ... */
export function keys(count: number, prefix = 'k'): string[] {
  return Array.from({ length: count }, (_, n) => `${prefix}${n}`);
}

/** All in one transaction. */
export async function changeAtOnce(store: ChangeStore, keys: Iterable<string>): Promise<void> {
  await store.commit(author, (tx) => {
    for (const key of keys) tx.emit(recordEvent(key));
  });
}

/** Lets the loop turn, and a second of the clock pass now and then, until it is so. */
export async function settles(what: string, clock: FakeClock, isSo: () => boolean): Promise<void> {
  for (let turn = 0; !isSo(); turn++) {
    if (turn > 50_000) throw new Error(`never: ${what}`);
    await new Promise(setImmediate);
    if (turn % 20 === 19) clock.advance(1_000);
  }
}

/** As many turns as anything that is due needs, without time passing. */
export async function turns(): Promise<void> {
  for (let n = 0; n < 20; n++) await new Promise(setImmediate);
}
