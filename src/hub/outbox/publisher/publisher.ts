/**
 * Takes waiting rows to the broker: the loop around the lanes' policy, with the SQL and the broker. Wakes on commit, when
 * the broker has something to say, and each second. A row counts as published when the broker has acknowledged it and that
 * is committed; a process that ends in between sends it again.
 */
import type { Clock, Timer } from '../../../shared/base/clock.ts';
import { LinesideError, messageOf } from '../../../shared/base/errors.ts';
import { Heartbeat } from '../../../shared/base/heartbeat.ts';
import type { Logger } from '../../../shared/base/logger.ts';
import type { Broker, Settled } from '../../kafka/face.ts';
import type { Audit, ChangeStore } from '../change-store.ts';
import type { Scope } from '../event.ts';
import { storageError } from '../storage-errors.ts';
import { BrokerRejectLog } from './broker-reject-log.ts';
import type { RowHead } from './key-queue.ts';
import { Pruner } from './pruner.ts';
import { type BlockedLane, Lanes } from './publish-scheduler.ts';
import { type Read, ReadAhead } from './read-ahead.ts';
import { Writes } from './result-writer.ts';
import { type StoredRow, WaitingRows } from './waiting-rows.ts';

export interface PublisherOptions {
  readonly store: ChangeStore;
  /** undefined: none is configured; rows wait. The publisher starts and stops it. */
  readonly broker: Broker | undefined;
  readonly topicOf: (scope: Scope) => string;
  readonly deviceId: string;
  /** Refusals after which a row is a dead letter. */
  readonly maxAttempts: number;
  /** Bytes that may be on their way, unacknowledged. */
  readonly inFlightBytes: number;
  readonly keepPublishedDays: number;
  /** No row above this is removed, however long ago it was published. Default: none is kept longer. */
  readonly keepAbove?: (() => number) | undefined;
  readonly clock: Clock;
  readonly logger: Logger;
}

export interface PublisherStatus {
  readonly waiting: number;
  readonly inFlight: number;
  readonly inFlightBytes: number;
  readonly publishedTotal: number;
  readonly refusedTotal: number;
  readonly unreachedTotal: number;
  /** Events removed before they were published, for want of room and of a broker, since the start. */
  readonly prunedTotal: number;
  readonly blocked: readonly BlockedLane[];
}

/** How often the publisher looks without being woken. */
const tickMs = 1_000;
/** Without a turn for so long it stands: the tick alone is one each second. */
const stillMs = 30_000;
/** Rows looked at in one turn of the loop, */
const turnRows = 500;
/** and how long it goes on with those at most: then changes, requests and the broker's reports have their turn. */
const turnMs = 5;
/** Keys with a row in hand; some 300 bytes each. With the smallest rows, 4 MiB on their way are about as many. */
const maxLanes = 10_000;
const heldRows = 1_000;
const heldBytes = 1024 * 1024;
/** On their way: more than a broker acknowledges while one transaction collects what is to be marked. */
const busyRows = 1_000;
/** Above this a refusal is the topic's rather than the key's. */
const blockedKeys = 100;

interface Row extends RowHead {
  readonly body: string;
}

interface Turn {
  rowsLeft: number;
  readonly endMs: number;
}

/** Not started yet. Throws where refdata.db cannot be read. */
export function createPublisher(options: PublisherOptions): Publisher {
  return new Publisher(options);
}

export class Publisher {
  readonly #o: PublisherOptions;
  readonly #rows: WaitingRows;
  readonly #lanes: Lanes<Row>;
  readonly #writes: Writes;
  readonly #pruner: Pruner;
  #waiting: number;
  readonly #ahead: ReadAhead<Row>;
  readonly #heartbeat: Heartbeat;
  readonly #refusals: BrokerRejectLog;
  #connected = false;
  /** The broker said so when it was offered a row; until it changes, or the next tick. */
  #offline = false;
  #timer: Timer | undefined;
  #turnAsked = false;
  /** The file could not be read, and that was said. */
  #unreadable = false;
  #state: 'new' | 'running' | 'stopping' | 'stopped' = 'new';
  #refusedTotal = 0;
  #unreachedTotal = 0;
  #prunedTotal = 0;

  /** Counts the waiting rows: some 10 ms for a million. */
  constructor(options: PublisherOptions) {
    const { store, maxAttempts, inFlightBytes } = options;
    this.#o = options;
    this.#heartbeat = new Heartbeat(options.clock, stillMs);
    this.#refusals = new BrokerRejectLog(options.clock, options.logger);
    this.#rows = new WaitingRows(store.connection);
    this.#lanes = new Lanes({ inFlightBytes, maxAttempts, lanes: maxLanes, heldRows, heldBytes, blockedKeys });
    this.#writes = new Writes({
      ...options,
      rows: this.#rows,
      isBusy: () => this.#lanes.inFlight >= busyRows,
      onWritten: (ids, left) => this.#written(ids, left),
    });
    this.#ahead = new ReadAhead((after) => this.#read(after));
    this.#pruner = new Pruner({ ...options, rows: this.#rows });
    this.#waiting = this.#rows.count();
    store.onCommitted((waiting) => this.#committed(waiting));
    if (options.broker === undefined) store.makeRoomBy((audit) => this.#prune(audit));
  }

  start(): void {
    if (this.#state !== 'new') return;
    this.#state = 'running';
    this.#pruner.start();
    const { broker } = this.#o;
    if (broker === undefined) return;
    broker.listen({ settled: (batch) => this.#settled(batch), changed: () => this.#changed() });
    broker.start();
    this.#tick();
  }

  /** Nothing more is offered; waits up to limitMs for what is on its way, and writes what was acknowledged. */
  async stop(limitMs: number): Promise<void> {
    if (this.#state !== 'running') return;
    this.#state = 'stopping';
    this.#heartbeat.rest();
    this.#timer?.cancel();
    this.#pruner.stop();
    await this.#o.broker?.stop(limitMs);
    await this.#writes.stop();
    this.#state = 'stopped';
  }

  /** Throws if its loop has stalled. */
  assertAlive(): void {
    this.#heartbeat.check();
  }

  status(): PublisherStatus {
    return {
      waiting: this.#waiting,
      inFlight: this.#lanes.inFlight,
      inFlightBytes: this.#lanes.inFlightBytes,
      publishedTotal: this.#writes.publishedTotal,
      refusedTotal: this.#refusedTotal,
      unreachedTotal: this.#unreachedTotal,
      prunedTotal: this.#prunedTotal,
      blocked: this.#lanes.blocked(this.#o.clock.monoMs()),
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
    return this.#lanes.inMemory + this.#writes.kept;
  }

  /** A dead letter waits again; that is committed. */
  requeued(id: number, scope: Scope): void {
    this.#waiting++;
    this.#ahead.drop();
    this.#lanes.waitsAgain(this.#o.topicOf(scope), id);
    this.#wake();
  }

  #committed(waiting: number | undefined): void {
    if (waiting === undefined) this.#recount();
    else this.#waiting += waiting;
    this.#wake();
  }

  /** Within a transaction. Without a broker no row is in hand. What webhooks still need stays. */
  #prune(audit: Audit): (() => void) | undefined {
    const { store, keepAbove } = this.#o;
    const pruned = this.#rows.prune(keepAbove?.() ?? Number.MAX_SAFE_INTEGER);
    if (pruned === undefined || pruned.events === 0) return undefined;
    if (pruned.waited > 0) audit(store.now(), 'publisher', 'outbox.pruned', 'oldest events', pruned);
    return () => this.#pruned(pruned.waited);
  }

  #pruned(waited: number): void {
    if (waited > 0 && this.#prunedTotal === 0) {
      const what = 'oldest events pruned: outbox.max_bytes is reached and Kafka is not configured';
      this.#o.logger.warn(what, { events: waited });
    }
    this.#waiting = Math.max(0, this.#waiting - waited);
    this.#prunedTotal += waited;
  }

  #changed(): void {
    const connected = this.#o.broker?.state().connected ?? false;
    if (connected && !this.#connected) this.#lanes.reconnected();
    this.#connected = connected;
    this.#offline = false;
    this.#wake();
  }

  #tick(): void {
    this.#heartbeat.beat();
    this.#timer = this.#o.clock.timer(tickMs, () => this.#tick());
    this.#offline = false;
    this.#writes.retry();
    this.#wake();
  }

  #settled(batch: readonly Settled[]): void {
    const now = this.#o.clock.monoMs();
    for (const { id, outcome } of batch) {
      if (outcome.kind === 'refused') this.#refusedTotal++;
      if (outcome.kind === 'unreached') this.#unreachedTotal++;
      const write = this.#lanes.settled(id, outcome, now);
      if (write === undefined) continue;
      this.#writes.add(write);
      this.#refusals.note(write);
    }
    this.#wake();
  }

  #written(ids: readonly number[], left: number): void {
    this.#waiting = Math.max(0, this.#waiting - left);
    for (const id of ids) this.#lanes.written(id);
    this.#wake();
  }

  /** One turn soon, however many ask. */
  #wake(): void {
    if (this.#turnAsked || this.#offline || this.#state !== 'running' || this.#o.broker === undefined) return;
    this.#turnAsked = true;
    setImmediate(() => {
      this.#turnAsked = false;
      if (this.#state === 'running') this.#turn();
    });
  }

  #turn(): void {
    try {
      const now = this.#o.clock.monoMs();
      const turn = { rowsLeft: turnRows, endMs: now + turnMs };
      this.#lanes.wake(now);
      if (this.#offerReady(turn) && this.#scan(turn)) this.#wake();
      this.#unreadable = false;
    } catch (error) {
      // The file cannot be read for the moment; the next tick tries again.
      this.#ahead.drop();
      this.#couldNotRead('waiting rows could not be read', error);
    }
  }

  /** Said once, until it can be read again; damage is the store's to know. */
  #couldNotRead(what: string, thrown: unknown): void {
    const error = storageError(thrown);
    if (error instanceof LinesideError && error.code === 'STORAGE_DAMAGED') this.#o.store.reportDamage(error.message);
    if (!this.#unreadable) this.#o.logger.warn(what, { error: messageOf(error) });
    this.#unreadable = true;
  }

  #isOver(turn: Turn): boolean {
    return turn.rowsLeft-- <= 0 || this.#o.clock.monoMs() >= turn.endMs;
  }

  /** False: the broker takes nothing more for now. */
  #offerReady(turn: Turn): boolean {
    for (const { id, row } of this.#lanes.readyRows()) {
      // Nothing is left of the turn for the scan either, which asks for the next one.
      if (this.#isOver(turn)) break;
      const again = row ?? this.#again(id);
      if (again === undefined) this.#lanes.gone(id);
      else if (!this.#lanes.hasRoomFor(again) || !this.#offer(again)) return false;
    }
    return true;
  }

  #read(after: number): Read<Row> {
    const { rows, lookedTo, ended } = this.#rows.read(after, (id) => this.#lanes.isInHand(id));
    return { rows: rows.map((row) => this.#rowOf(row)), lookedTo, ended };
  }

  #again(id: number): Row | undefined {
    const stored = this.#rows.one(id);
    return stored === undefined ? undefined : this.#rowOf(stored);
  }

  /** True: there is more to look at. */
  #scan(turn: Turn): boolean {
    const now = this.#o.clock.monoMs();
    while (!this.#isOver(turn)) {
      const position = this.#lanes.position();
      const row = this.#ahead.peek(position);
      if (row === undefined) {
        if (position.pass === 0) return this.#allSeen();
        this.#lanes.exhausted();
        continue;
      }
      const verdict = this.#lanes.judge(row, now);
      if (verdict === 'wait' || (verdict === 'offer' && !this.#offer(row))) return false;
      this.#ahead.consumed();
    }
    return true;
  }

  /** With nothing in hand and nothing behind nothing waits: a count that went astray (a failed one) is corrected. */
  #allSeen(): false {
    if (this.#waiting !== 0 && this.#lanes.inMemory === 0) this.#recount();
    return false;
  }

  #recount(): void {
    try {
      this.#waiting = this.#rows.count();
    } catch (error) {
      this.#couldNotRead('waiting rows could not be counted', error);
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
    if (offered === 'taken') this.#lanes.taken(row, clock.monoMs());
    if (offered === 'offline') this.#offline = true;
    return offered === 'taken';
  }

  #rowOf({ id, scope, dictionary, businessKey, attempts, body }: StoredRow): Row {
    const key = `${dictionary}:${businessKey}`;
    const bytes = Buffer.byteLength(body) + Buffer.byteLength(key);
    return { id, topic: this.#o.topicOf(scope), key, attempts, bytes, body };
  }
}
