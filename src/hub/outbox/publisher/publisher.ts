/**
 * Publishes waiting rows: the loop around the scheduler, with the SQL and the broker. Wakes on commit, on each report of the
 * broker, and each second. A row is published when the acknowledgement of the broker is committed; a process that stops before
 * sends the row again.
 */
import { messageOf } from '../../../shared/base/errors.ts';
import { FailureLog, Loop } from '../../../shared/base/loop.ts';
import type { Broker, Settled } from '../../kafka/face.ts';
import type { Scope } from '../event.ts';
import { Pruner, type PrunerOptions } from './pruner.ts';
import { PublishScheduler } from './publish-scheduler.ts';
import { ResultWriter } from './result-writer.ts';
import { ReadAhead, type Row, WaitingRows } from './waiting-rows.ts';

export interface PublisherOptions extends PrunerOptions {
  /** undefined: not configured; rows wait. The publisher starts and stops it. */
  readonly broker: Broker | undefined;
  readonly topicOf: (scope: Scope) => string;
  readonly deviceId: string;
  readonly maxAttempts: number;
  readonly inFlightBytes: number;
}

export type PublisherStatus = ReturnType<Publisher['status']>;

/** How often the publisher runs without being woken. */
const tickMs = 1_000;
/** Without a tick for this long the loop has stalled. */
const stalledMs = 30_000;
/** Of one pass: then changes, requests and the broker's reports have their turn. */
const passRows = 500;
const passMs = 5;
/** Keys with a queue, about 300 bytes each. With the smallest rows, 4 MiB in flight are about as many. */
const maxKeys = 10_000;
const heldRows = 1_000;
const heldBytes = 1024 * 1024;
/** In flight: more than a broker acknowledges while one transaction collects marks. */
const busyRows = 1_000;
/** With more of them the topic refuses, not the keys. */
const blockedKeys = 100;

interface PassBudget {
  rowsLeft: number;
  readonly endMs: number;
}

export class Publisher {
  readonly #o: PublisherOptions;
  readonly #rows: WaitingRows;
  readonly #scheduler: PublishScheduler<Row>;
  readonly #results: ResultWriter;
  readonly #pruner: Pruner;
  #waiting: number;
  readonly #readAhead: ReadAhead<Row>;
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
    const { store, broker, topicOf, maxAttempts, inFlightBytes, clock, logger } = options;
    this.#o = options;
    const failures = new FailureLog(logger, 'the publisher failed', 'the publisher works again');
    this.#loop = new Loop({ pass: () => this.#tick(), failures, clock, stalledMs });
    this.#reading = new FailureLog(logger, 'waiting rows could not be read', 'waiting rows can be read again');
    this.#rows = new WaitingRows(store.connection, topicOf);
    this.#scheduler = new PublishScheduler({
      inFlightBytes,
      maxAttempts,
      keys: maxKeys,
      heldRows,
      heldBytes,
      blockedKeys,
    });
    this.#results = new ResultWriter({
      ...options,
      rows: this.#rows,
      isBusy: () => this.#scheduler.inFlight >= busyRows,
      onWritten: (ids, left) => this.#written(ids, left),
    });
    this.#readAhead = new ReadAhead((after) => this.#rows.read(after, (id) => this.#scheduler.isLoaded(id)));
    this.#pruner = new Pruner(options);
    this.#waiting = this.#rows.count();
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
      waiting: this.#waiting,
      inFlight: this.#scheduler.inFlight,
      inFlightBytes: this.#scheduler.inFlightBytes,
      publishedTotal: this.#results.publishedTotal,
      refusedTotal: this.#refusedTotal,
      unreachedTotal: this.#unreachedTotal,
      prunedTotal: this.#pruner.prunedTotal,
      blocked: this.#scheduler.blocked(this.#o.clock.monoMs()),
    };
  }

  oldest(): ReturnType<WaitingRows['oldest']> {
    return this.#waiting === 0 ? undefined : this.#rows.oldest();
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Rows and keys held in memory: bounded, whatever waits. */
  get inMemory(): number {
    return this.#scheduler.inMemory + this.#results.pending;
  }

  /** Called after the commit by which a dead letter waits again. */
  requeued(id: number, scope: Scope): void {
    this.#waiting++;
    this.#readAhead.drop();
    this.#scheduler.requeued(this.#o.topicOf(scope), id);
    this.#wake();
  }

  #committed(waiting: number | undefined): void {
    if (waiting === undefined) this.#recount();
    else this.#waiting += waiting;
    this.#wake();
  }

  /** So many rows no longer wait. */
  #left(rows: number): void {
    this.#waiting = Math.max(0, this.#waiting - rows);
  }

  #changed(): void {
    const connected = this.#o.broker?.state().connected ?? false;
    if (connected && !this.#connected) this.#scheduler.reconnected();
    this.#connected = connected;
    this.#offline = false;
    this.#wake();
  }

  #tick(): number {
    this.#offline = false;
    this.#wake();
    return tickMs;
  }

  #settled(batch: readonly Settled[]): void {
    const now = this.#o.clock.monoMs();
    for (const { id, outcome } of batch) {
      if (outcome.kind === 'refused') this.#refusedTotal++;
      if (outcome.kind === 'unreached') this.#unreachedTotal++;
      const update = this.#scheduler.settled(id, outcome, now);
      if (update !== undefined) this.#results.add(update);
    }
    this.#wake();
  }

  #written(ids: readonly number[], left: number): void {
    this.#left(left);
    for (const id of ids) this.#scheduler.written(id);
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
      const now = this.#o.clock.monoMs();
      const turn = { rowsLeft: passRows, endMs: now + passMs };
      this.#scheduler.timePassed(now);
      if (this.#o.store.read(() => this.#offerReady(turn) && this.#scan(turn))) this.#wake();
      this.#reading.recovered();
    } catch (error) {
      // The next tick retries.
      this.#readAhead.drop();
      this.#reading.failed(messageOf(error));
    }
  }

  #isSpent(turn: PassBudget): boolean {
    return turn.rowsLeft-- <= 0 || this.#o.clock.monoMs() >= turn.endMs;
  }

  /** False: the broker takes nothing more for now. */
  #offerReady(turn: PassBudget): boolean {
    for (const { id, row } of this.#scheduler.readyRows()) {
      // The scan finds the budget spent, too, and returns that there is more.
      if (this.#isSpent(turn)) break;
      const again = row ?? this.#rows.one(id);
      if (again === undefined) this.#scheduler.removed(id);
      else if (!this.#scheduler.hasRoomFor(again) || !this.#offer(again)) return false;
    }
    return true;
  }

  /** True: there are more rows to scan. */
  #scan(turn: PassBudget): boolean {
    const now = this.#o.clock.monoMs();
    while (!this.#isSpent(turn)) {
      const position = this.#scheduler.position();
      const row = this.#readAhead.peek(position);
      if (row === undefined) {
        if (position.pass === 0) return this.#scanCompleted();
        this.#scheduler.exhausted();
        continue;
      }
      const verdict = this.#scheduler.decide(row, now);
      if (verdict === 'wait' || (verdict === 'offer' && !this.#offer(row))) return false;
      this.#readAhead.consumed();
    }
    return true;
  }

  /** With no row in memory and none behind the scan nothing waits: corrects a count that is wrong after a failure. */
  #scanCompleted(): false {
    if (this.#waiting !== 0 && this.#scheduler.inMemory === 0) this.#recount();
    return false;
  }

  #recount(): void {
    try {
      this.#waiting = this.#o.store.read(() => this.#rows.count());
    } catch (error) {
      this.#reading.failed(messageOf(error));
    }
  }

  /** Whether the broker took it. */
  #offer(row: Row): boolean {
    const { broker, store, deviceId, clock } = this.#o;
    const { id, topic, key, body } = row;
    const headers = {
      'device-id': deviceId,
      'event-id': `${store.storeId}-${id}`,
      'content-type': 'application/json',
    };
    const offered = broker?.offer({ id, topic, key, value: body, headers }) ?? 'offline';
    if (offered === 'taken') this.#scheduler.taken(row, clock.monoMs());
    if (offered === 'offline') this.#offline = true;
    return offered === 'taken';
  }
}
