/**
 * What the publish scheduler holds in memory: the queue of each key with its head row, rows behind the heads, the topics and the
 * backlog. Pure.
 */
import { Backlog, Gap } from './backlog.ts';
import { type Slice, type TopicState, TopicStates } from './topic-state.ts';

export interface RowHead {
  readonly id: number;
  readonly topic: string;
  readonly key: string;
  /** Refusals so far. */
  readonly attempts: number;
  readonly bytes: number;
}

/** The first row of a key. */
export type Head<R> =
  /** It may be offered. row undefined: to be re-read by its id. */
  | { readonly kind: 'ready'; readonly id: number; readonly row: R | undefined }
  /** The broker has it. */
  | {
      readonly kind: 'inFlight';
      readonly id: number;
      readonly bytes: number;
      readonly attempts: number;
      readonly sinceMs: number;
    }
  /** Its outcome is being written. */
  | { readonly kind: 'settled'; readonly id: number; readonly sinceMs: number }
  /** To be retried later. `refused`: it counts as blocked. */
  | { readonly kind: 'backoff'; readonly id: number; readonly refused: boolean; readonly retryAtMs: number }
  /** None: the next row is among those passed over. */
  | { readonly kind: 'idle' };

/** The scan does not wait for a queue whose row has been in flight for longer. */
const promptMs = 1_000;

export function isPrompt(head: Head<unknown>, nowMs: number): boolean {
  return (
    head.kind === 'ready' || ((head.kind === 'inFlight' || head.kind === 'settled') && nowMs - head.sinceMs < promptMs)
  );
}

export class KeyQueue<R> {
  /** Of its key: hashed once. */
  readonly name: string;
  readonly topicName: string;
  readonly key: string;
  readonly slice: Slice;
  readonly topic: TopicState;
  /** Set by KeyQueues.move() only. */
  head: Head<R> = { kind: 'idle' };
  /** Its rows that were passed over. */
  readonly gap = new Gap();
  /** Retries of the head, for the backoff. */
  retries = 0;
  /** Why the head was refused last; undefined: it was not. */
  refusal: { readonly reason: string; readonly attempts: number } | undefined;

  constructor(name: string, { topic, key }: RowHead, slice: Slice) {
    this.name = name;
    this.topicName = topic;
    this.key = key;
    this.slice = slice;
    this.topic = slice.topic;
  }
}

/** All queues: by their key, by the id of their head, by what becomes of it. */
class KeyQueues<R extends RowHead> {
  readonly #byKey = new Map<string, KeyQueue<R>>();
  readonly #byHead = new Map<number, KeyQueue<R>>();
  /** Each in the order in which the queues came to it. */
  readonly #in: Readonly<Record<Head<R>['kind'], Set<KeyQueue<R>>>> = {
    ready: new Set(),
    inFlight: new Set(),
    settled: new Set(),
    backoff: new Set(),
    idle: new Set(),
  };

  get size(): number {
    return this.#byKey.size;
  }

  /** Head rows. */
  get heads(): number {
    return this.#byHead.size;
  }

  all(): Iterable<KeyQueue<R>> {
    return this.#byKey.values();
  }

  in(kind: Head<R>['kind']): ReadonlySet<KeyQueue<R>> {
    return this.#in[kind];
  }

  of(row: RowHead): KeyQueue<R> | undefined {
    return this.#byKey.get(nameOf(row));
  }

  withHead(id: number): KeyQueue<R> | undefined {
    return this.#byHead.get(id);
  }

  open(row: RowHead, slice: Slice): KeyQueue<R> {
    const name = nameOf(row);
    const queue = new KeyQueue<R>(name, row, slice);
    this.#byKey.set(name, queue);
    this.#in.idle.add(queue);
    return queue;
  }

  move(queue: KeyQueue<R>, head: Head<R>): void {
    const [before, after] = [idOf(queue.head), idOf(head)];
    this.#in[queue.head.kind].delete(queue);
    this.#in[head.kind].add(queue);
    queue.head = head;
    if (before === after) return;
    if (before !== undefined) this.#byHead.delete(before);
    if (after !== undefined) this.#byHead.set(after, queue);
  }

  close(queue: KeyQueue<R>): void {
    this.#in[queue.head.kind].delete(queue);
    if (queue.head.kind !== 'idle') this.#byHead.delete(queue.head.id);
    this.#byKey.delete(queue.name);
  }
}

function idOf(head: Head<unknown>): number | undefined {
  return head.kind === 'idle' ? undefined : head.id;
}

/** No topic's name has a space. */
function nameOf({ topic, key }: RowHead): string {
  return `${topic} ${key}`;
}

export interface SchedulerLimits {
  /** Bytes in flight, unacknowledged; one row always may be. */
  readonly inFlightBytes: number;
  /** Keys with a queue. */
  readonly keys: number;
  /** Rows and bytes held for their queues. */
  readonly heldRows: number;
  readonly heldBytes: number;
  /** Keys of a topic that may be refused before nothing more of it is offered. */
  readonly blockedKeys: number;
  /** Refusals after which a row is a dead letter. */
  readonly maxAttempts: number;
}

export class SchedulerState<R extends RowHead> {
  readonly limits: SchedulerLimits;
  readonly backlog = new Backlog();
  readonly topics: TopicStates;
  readonly queues = new KeyQueues<R>();
  readonly held: HeldRows<KeyQueue<R>, R>;
  inFlightBytes = 0;

  constructor(limits: SchedulerLimits) {
    this.limits = limits;
    this.topics = new TopicStates(limits.blockedKeys);
    this.held = new HeldRows(limits.heldRows, limits.heldBytes);
  }

  get inFlight(): number {
    return this.queues.in('inFlight').size;
  }

  has(id: number): boolean {
    return this.queues.withHead(id) !== undefined || this.held.has(id);
  }

  hasRoomFor({ bytes }: R): boolean {
    return this.inFlight === 0 || this.inFlightBytes + bytes <= this.limits.inFlightBytes;
  }

  /** No earlier row of the key is missing. */
  isInTurn({ gap, slice }: KeyQueue<R>): boolean {
    return this.backlog.isWhole(gap) && this.backlog.isWhole(slice.gap);
  }

  /** What is held for a queue is passed over instead. */
  dropHeld(queue: KeyQueue<R>): void {
    const first = this.held.drop(queue);
    if (first !== undefined) this.backlog.passOver(queue.gap, first.id);
  }

  /** A queue without a head is closed; what was passed over for it is now passed over for its slice. */
  closeIntoSlice(queue: KeyQueue<R>): void {
    this.backlog.passOver(queue.slice.gap, queue.gap.from);
    this.queues.close(queue);
  }

  /** The head and the held rows are passed over too. */
  evict(queue: KeyQueue<R>, id: number): void {
    this.dropHeld(queue);
    this.backlog.passOver(queue.gap, id);
    this.closeIntoSlice(queue);
  }

  /**
   * Queues whose head was unreached make room for `needy`: all such of the other slice that waits longest. If there is none:
   * those of `needy`, if they take more than half of all queues; if not, rows in flight are soon back. The slice is deferred
   * until the first of its rows would have been retried. Returns it; undefined: none made room.
   */
  deferUnreached(needy: Slice): Slice | undefined {
    const slice = this.#sliceToDefer(needy);
    if (slice === undefined) return undefined;
    let toMs = Number.POSITIVE_INFINITY;
    for (const queue of this.queues.in('backoff')) {
      if (queue.slice !== slice || queue.head.kind !== 'backoff' || queue.head.refused) continue;
      toMs = Math.min(toMs, queue.head.retryAtMs);
      this.evict(queue, queue.head.id);
    }
    this.topics.defer(slice, toMs);
    return slice;
  }

  #sliceToDefer(needy: Slice): Slice | undefined {
    let own = 0;
    for (const { head, slice } of this.queues.in('backoff')) {
      if (head.kind !== 'backoff' || head.refused) continue;
      if (slice !== needy) return slice;
      own++;
    }
    return own > this.limits.keys / 2 ? needy : undefined;
  }
}

/** Rows kept in memory until the row of their key before them is done with: bounded in rows and bytes. */
class HeldRows<Queue, R extends { readonly id: number; readonly bytes: number }> {
  readonly #maxRows: number;
  readonly #maxBytes: number;
  readonly #byQueue = new Map<Queue, R[]>();
  readonly #ids = new Set<number>();
  #bytes = 0;

  constructor(maxRows: number, maxBytes: number) {
    this.#maxRows = maxRows;
    this.#maxBytes = maxBytes;
  }

  get size(): number {
    return this.#ids.size;
  }

  get isFull(): boolean {
    return this.#ids.size >= this.#maxRows || this.#bytes >= this.#maxBytes;
  }

  has(id: number): boolean {
    return this.#ids.has(id);
  }

  /** Queues for which rows are held. */
  queues(): Iterable<Queue> {
    return this.#byQueue.keys();
  }

  /** Behind those held for the queue already. False: there is no room. */
  hold(queue: Queue, row: R): boolean {
    if (this.#ids.size >= this.#maxRows || this.#bytes + row.bytes > this.#maxBytes) return false;
    const rows = this.#byQueue.get(queue);
    if (rows === undefined) this.#byQueue.set(queue, [row]);
    else rows.push(row);
    this.#ids.add(row.id);
    this.#bytes += row.bytes;
    return true;
  }

  /** The next row of the queue, which is no longer held. */
  takeNext(queue: Queue): R | undefined {
    const rows = this.#byQueue.get(queue);
    const row = rows?.shift();
    if (row !== undefined) this.#forget(row);
    if (rows?.length === 0) this.#byQueue.delete(queue);
    return row;
  }

  /** Holds nothing more for the queue; returns the first row that was held. */
  drop(queue: Queue): R | undefined {
    const rows = this.#byQueue.get(queue) ?? [];
    for (const row of rows) this.#forget(row);
    this.#byQueue.delete(queue);
    return rows[0];
  }

  #forget(row: R): void {
    this.#ids.delete(row.id);
    this.#bytes -= row.bytes;
  }
}
