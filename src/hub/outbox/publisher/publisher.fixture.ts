/** A publisher over a real refdata.db, and a broker in memory that answers as a test says and keeps what arrived. */
import type { TestContext } from 'node:test';
import type { Clock } from '../../../shared/base/clock.ts';
import type { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { silentLogger } from '../../../shared/base/logger.ts';
import type {
  Broker,
  BrokerListener,
  BrokerState,
  Offered,
  Outcome,
  OutgoingMessage,
  Settled,
} from '../../kafka/face.ts';
import { author, type TemporaryStore, temporaryStore } from '../change-store.fixture.ts';
import type { ChangeStore } from '../change-store.ts';
import { emitEvent, recordEvent } from '../event.fixture.ts';
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
  broker: Broker | undefined,
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
    markDelayMs: 0,
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
    await store.commit(author, (tx) => emitEvent(tx, recordEvent(key, version)));
  }
}

/** "k0", "k1", ... */
export function keys(count: number, prefix = 'k'): string[] {
  return Array.from({ length: count }, (_, n) => `${prefix}${n}`);
}

/** All in one transaction. */
export async function changeAtOnce(store: ChangeStore, keys: Iterable<string>): Promise<void> {
  await store.commit(author, (tx) => {
    for (const key of keys) emitEvent(tx, recordEvent(key));
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

/** 'lost' and 'silent' have arrived, and are reported as unreached or not at all; 'never' has not, and is not reported. */
type Answer = 'acknowledge' | 'refuse' | 'refuse for ever' | 'time out' | 'lost' | 'silent' | 'never';

export class FakeBroker implements Broker {
  /** What arrived, in order. */
  readonly arrived: OutgoingMessage[] = [];
  readonly acknowledged = new Set<number>();
  /** Every id it took, in order. */
  readonly taken: number[] = [];
  offers = 0;
  answer: (message: OutgoingMessage) => Answer = () => 'acknowledge';
  /** Messages it takes at a time. */
  capacity = Number.POSITIVE_INFINITY;
  mostOutstanding = 0;
  #connected = true;
  #listener: BrokerListener | undefined;
  readonly #outstanding = new Map<number, OutgoingMessage>();
  #queue: OutgoingMessage[] = [];
  #asked = false;

  offer(message: OutgoingMessage): Offered {
    this.offers++;
    if (!this.#connected) return 'offline';
    if (this.#outstanding.size >= this.capacity) return 'full';
    if (this.#outstanding.has(message.id)) throw new Error(`${message.id} is in flight already`);
    this.#outstanding.set(message.id, message);
    this.taken.push(message.id);
    this.mostOutstanding = Math.max(this.mostOutstanding, this.#outstanding.size);
    this.#queue.push(message);
    this.#ask();
    return 'taken';
  }

  set connected(connected: boolean) {
    this.#connected = connected;
    this.#listener?.changed();
  }

  /** What was not reported yet is reported now. */
  settle(outcome: Outcome, ids: Iterable<number> = this.#outstanding.keys()): void {
    this.#report([...ids].map((id) => ({ id, outcome })));
  }

  get outstanding(): number {
    return this.#outstanding.size;
  }

  hasRoom(): boolean {
    return true;
  }
  state(): BrokerState {
    const figures = { forMs: 0, topics: [], outstanding: this.#outstanding.size, outstandingBytes: 0 };
    return { connected: this.#connected, reason: '', producersReplaced: 0, ...figures };
  }

  start(listener?: BrokerListener): void {
    this.#listener = listener;
    listener?.changed();
  }

  async stop(): Promise<void> {
    await new Promise(setImmediate);
    this.settle({ kind: 'unreached', reason: 'stopped' });
  }

  #ask(): void {
    if (this.#asked) return;
    this.#asked = true;
    setImmediate(() => {
      this.#asked = false;
      const settled: Settled[] = [];
      for (const message of this.#queue.splice(0)) {
        const outcome = this.#judge(message);
        if (outcome !== undefined) settled.push({ id: message.id, outcome });
      }
      this.#report(settled);
    });
  }

  #judge(message: OutgoingMessage): Outcome | undefined {
    const answer = this.answer(message);
    if (answer === 'acknowledge' || answer === 'lost' || answer === 'silent') this.arrived.push(message);
    switch (answer) {
      case 'acknowledge':
        return { kind: 'acknowledged' };
      case 'refuse':
      case 'refuse for ever':
        return { kind: 'refused', reason: 'not allowed', permanent: answer === 'refuse for ever' };
      case 'lost':
      case 'time out':
        return { kind: 'unreached', reason: 'timed out' };
      default:
        return undefined;
    }
  }

  #report(batch: readonly Settled[]): void {
    const known = batch.filter(({ id }) => this.#outstanding.delete(id));
    for (const { id, outcome } of known) if (outcome.kind === 'acknowledged') this.acknowledged.add(id);
    if (known.length > 0) this.#listener?.settled(known);
  }
}
