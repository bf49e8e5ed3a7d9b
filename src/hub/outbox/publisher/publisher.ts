/**
 * Publishes waiting rows: the loop between the rows (queue-rows.ts), what is in memory of them (key-queues.ts) and the broker.
 * Wakes on commit, on each report of the broker, and each second. A row is published when the broker's acknowledgement is
 * committed; a process that stops before that sends the row again.
 */
import { messageOf } from '../../../shared/base/errors.ts';
import { FailureLog, Loop } from '../../../shared/base/loop.ts';
import type { Broker, Settled } from '../../kafka/face.ts';
import { type Scope, scopes } from '../event.ts';
import { type KeyQueue, KeyQueues, type QueueLimits, type RowUpdate } from './key-queues.ts';
import { Pruner, type PrunerOptions } from './pruner.ts';
import { type BlockedKey, QueueRows } from './queue-rows.ts';
import { ResultWriter } from './result-writer.ts';

export interface PublisherOptions extends PrunerOptions {
  /** undefined: not configured; rows wait. The publisher starts and stops it. */
  readonly broker: Broker | undefined;
  readonly topicOf: (scope: Scope) => string;
  readonly deviceId: string;
  readonly maxAttempts: number;
  readonly inFlightBytes: number;
  /** Other ones than the default. */
  readonly limits?: Partial<QueueLimits>;
  readonly markDelayMs?: number;
}

export type PublisherStatus = ReturnType<Publisher['status']>;

/** How often the publisher runs without being woken. */
const tickMs = 1_000;
/** Without a tick for this long the loop has stalled. */
const stalledMs = 30_000;
/** Of one pass: then changes, requests and the broker's reports have their turn. */
const passRows = 500;
const passMs = 5;
/** About 300 bytes a key and 8 an id. With the smallest events, 4 MiB in flight are about as many keys. */
const defaultLimits = { keys: 10_000, ids: 100_000, idsOfKey: 5_000, blockedKeys: 100 };
/** In flight: more than a broker acknowledges while one transaction collects marks. */
const busyRows = 1_000;
/** Deferred events of a topic that are sent again at a time, of those refused and of the others. */
const claimRows = 100;
/** Of results to be written, with which the scan waits. */
const maxResults = 20_000;

interface PassBudget {
  rowsLeft: number;
  readonly endMs: number;
}

export class Publisher {
  readonly #o: PublisherOptions;
  readonly #rows: QueueRows;
  readonly #queues: KeyQueues;
  readonly #results: ResultWriter;
  readonly #pruner: Pruner;
  waiting: number;
  readonly #loop: Loop;
  #connected = false;
  /** The broker reported it for an offered row. Reset by the next change of the broker, or the next tick. */
  #offline = false;
  #passAsked = false;
  readonly #reading: FailureLog;
  #state: 'new' | 'running' | 'stopped' = 'new';
  #refusedTotal = 0;
  #unreachedTotal = 0;

  /** Counts the waiting rows: about 10 ms for a million. Throws if refdata.db cannot be read. */
  constructor(options: PublisherOptions) {
    const { store, broker, maxAttempts, inFlightBytes, limits, clock, logger } = options;
    this.#o = options;
    const failures = new FailureLog(logger, 'the publisher failed', 'the publisher works again');
    this.#loop = new Loop({ pass: () => this.#tick(), failures, clock, stalledMs });
    this.#reading = new FailureLog(logger, 'waiting rows could not be read', 'waiting rows can be read again');
    this.#rows = new QueueRows(store.connection);
    this.#queues = new KeyQueues({ ...defaultLimits, inFlightBytes, maxAttempts, ...limits });
    this.#results = new ResultWriter({
      ...options,
      rows: this.#rows,
      isBusy: () => this.#queues.inFlight >= busyRows,
      onWritten: (batch, left) => this.#written(batch, left),
    });
    this.#pruner = new Pruner(options);
    this.waiting = this.#rows.sql.count.get() ?? 0;
    for (const [scope, keys] of this.#rows.blockedKeys()) this.#queues.topicOf(scope).blocked = keys;
    store.onCommitted((waiting) => this.#committed(waiting));
    if (broker === undefined) store.makeRoomBy((audit) => this.#pruner.makeRoom(audit, (waited) => this.#left(waited)));
  }

  start(): void {
    if (this.#state !== 'new') return;
    this.#state = 'running';
    this.#pruner.start();
    const { broker } = this.#o;
    if (broker === undefined) return;
    broker.start({ settled: (batch) => this.#settled(batch), changed: () => this.#changed() });
    this.#loop.start();
  }

  /** Waits up to limitMs for rows in flight, and writes the acknowledgements. */
  async stop(limitMs: number): Promise<void> {
    if (this.#state !== 'running') return;
    this.#state = 'stopped';
    void this.#loop.stop();
    this.#pruner.stop();
    await this.#o.broker?.stop(limitMs);
    await this.#results.stop();
  }

  /** Throws if its loop has stalled. */
  assertAlive(): void {
    this.#loop.assertAlive();
  }

  status() {
    return {
      waiting: this.waiting,
      inFlight: this.#queues.inFlight,
      inFlightBytes: this.#queues.inFlightBytes,
      publishedTotal: this.#results.publishedTotal,
      refusedTotal: this.#refusedTotal,
      unreachedTotal: this.#unreachedTotal,
      prunedTotal: this.#pruner.prunedTotal,
    };
  }

  /** Keys whose first event was refused: how many, and the first `limit` of them. */
  blocked(limit: number): { readonly count: number; readonly first: readonly BlockedKey[] } {
    return this.#rows.blocked(limit);
  }

  /** Nothing more of the topic is offered, except the first events of the keys that it refused. */
  isClosed(scope: Scope): boolean {
    return this.#queues.topicOf(scope).isFullOfBlocked;
  }

  oldest() {
    return this.waiting === 0 ? undefined : this.#rows.sql.oldest.get();
  }

  /** Ids and keys held in memory: bounded, whatever waits. */
  get inMemory(): number {
    return this.#queues.inMemory + this.#results.pending;
  }

  /** Within the transaction by which a dead letter waits again. */
  requeue(id: number, scope: Scope, key: string): void {
    this.#rows.deferBehind(id, { scope, key });
    this.#rows.setHead({ scope, key });
  }

  /** After its commit. */
  requeued(): void {
    this.waiting++;
    this.#rows.lookForDeferred();
    this.#wake();
  }

  #committed(waiting: number | undefined): void {
    if (waiting === undefined) this.#recount();
    else this.waiting += waiting;
    this.#wake();
  }

  /** So many rows no longer wait. */
  #left(rows: number): void {
    this.waiting = Math.max(0, this.waiting - rows);
  }

  #changed(): void {
    const connected = this.#o.broker?.state().connected ?? false;
    if (connected && !this.#connected) this.#reconnected();
    this.#connected = connected;
    this.#offline = false;
    this.#wake();
  }

  /** What was not reached need not wait for its time. */
  #reconnected(): void {
    if (!this.#rows.hasDeferred) return;
    // If it fails they wait for their time.
    this.#o.store
      .maintain(() => this.#rows.sql.hasten.run())
      .then(
        () => this.#wake(),
        () => {},
      );
  }

  #tick(): number {
    this.#offline = false;
    this.#wake();
    return tickMs;
  }

  #settled(batch: readonly Settled[]): void {
    const now = this.#o.clock.monoMs();
    const isConnected = this.#o.broker?.state().connected ?? false;
    for (const { id, outcome } of batch) {
      if (outcome.kind === 'refused') this.#refusedTotal++;
      if (outcome.kind === 'unreached') this.#unreachedTotal++;
      this.#write(this.#queues.settled(id, outcome, isConnected, now));
    }
    this.#wake();
  }

  #write(update: RowUpdate | undefined): void {
    if (update !== undefined) this.#results.add(update);
  }

  #written(batch: readonly RowUpdate[], left: number): void {
    this.#left(left);
    this.#rows.written(batch);
    for (const update of batch) this.#queues.written(update);
    if (this.#rows.hasDeferred || batch.some(({ queue }) => queue.deferred)) this.#rows.lookForDeferred();
    this.#wake();
  }

  /** One pass in the next turn, however many calls. */
  #wake(): void {
    if (this.#passAsked || this.#offline || this.#state !== 'running' || this.#o.broker === undefined) return;
    this.#passAsked = true;
    setImmediate(() => {
      this.#passAsked = false;
      if (this.#state === 'running') this.#pass();
    });
  }

  #pass(): void {
    try {
      const turn = { rowsLeft: passRows, endMs: this.#o.clock.monoMs() + passMs };
      if (this.#o.store.read(() => this.#offerAll(turn))) this.#wake();
      this.#results.hasten();
      this.#reading.recovered();
    } catch (error) {
      // The next tick retries.
      this.#rows.drop();
      this.#reading.failed(messageOf(error));
    }
  }

  /** True: there is more to do. */
  #offerAll(turn: PassBudget): boolean {
    this.#claimDeferred();
    if (!this.#offerReady(turn)) return false;
    const isMore = this.#scan(turn);
    return this.#offerReady(turn) && isMore;
  }

  #claimDeferred(): void {
    if (!this.#rows.hasDeferred) return;
    const now = this.#o.clock.monoMs();
    for (const scope of scopes) {
      for (const refused of [true, false]) {
        const heads = this.#rows.dueHeads(scope, refused, now, 2 * claimRows);
        let claimed = heads.filter((head) => this.#queues.isInMemory(head)).length;
        for (const head of heads) if (claimed < claimRows && this.#queues.claim(head)) claimed++;
      }
    }
  }

  #isSpent(turn: PassBudget): boolean {
    return turn.rowsLeft-- <= 0 || this.#o.clock.monoMs() >= turn.endMs;
  }

  /** False: the broker takes nothing more for now. */
  #offerReady(turn: PassBudget): boolean {
    for (const queue of this.#queues.ready()) {
      // The scan finds the budget spent, too, and returns that there is more.
      if (this.#isSpent(turn)) break;
      if (!this.#offer(queue)) return false;
    }
    return true;
  }

  /** True: there are more rows to scan. */
  #scan(turn: PassBudget): boolean {
    const now = this.#o.clock.monoMs();
    while (!this.#isSpent(turn)) {
      const row = this.#rows.peek(this.#queues.position());
      if (row === undefined) return this.#scanCompleted();
      if (row.isDeferred === 0) {
        if (this.#results.pending >= maxResults) return false;
        const verdict = this.#queues.scanned(row, this.#rows.isKeyDeferred(row), now);
        if (verdict === 'wait') return false;
        if (verdict !== 'next') this.#write(verdict);
      }
      this.#rows.consumed(row);
      this.#queues.advance(row.id);
    }
    return true;
  }

  /** With nothing in memory and nothing behind the scan nothing waits: corrects a count that is wrong after a failure. */
  #scanCompleted(): false {
    if (this.waiting !== 0 && this.#queues.isEmpty && !this.#rows.hasDeferred) this.#recount();
    return false;
  }

  #recount(): void {
    try {
      this.waiting = this.#o.store.read(() => this.#rows.sql.count.get() ?? 0);
    } catch (error) {
      this.#reading.failed(messageOf(error));
    }
  }

  /** Whether the broker took the head, or it was gone. */
  #offer(queue: KeyQueue): boolean {
    const { broker, store, topicOf, deviceId, clock } = this.#o;
    const id = queue.head;
    const row = queue.body ?? this.#rows.one(id);
    if (row === undefined) {
      this.#write(this.#queues.gone(queue));
      return true;
    }
    const bytes = Buffer.byteLength(row.body) + Buffer.byteLength(queue.key);
    if (!this.#queues.hasRoomFor(bytes)) return false;
    const headers = {
      'device-id': deviceId,
      'event-id': `${store.storeId}-${id}`,
      'content-type': 'application/json',
    };
    const message = { id, topic: topicOf(queue.scope), key: queue.key, value: row.body, headers };
    const offered = broker?.offer(message) ?? 'offline';
    if (offered === 'taken') this.#queues.taken(queue, { bytes, attempts: row.attempts }, clock.monoMs());
    if (offered === 'offline') this.#offline = true;
    return offered === 'taken';
  }
}
