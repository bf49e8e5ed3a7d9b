/**
 * What the publisher has in memory: the event in flight of each key, and the ids of some events behind it. Pure. All else that
 * waits is rows: events not yet scanned in outbox_waiting, and in outbox_deferred those of keys whose first event was refused or
 * not reached, or behind which too many wait. So memory is bounded, however many events wait.
 *
 * A key is in memory while it has an event in flight, or one whose result is not written yet. An event of another key opens a
 * queue, unless the topic is closed: then it is passed over, and the scan returns to it.
 *
 *     ready     until there is room: taken -> inFlight
 *     inFlight  until its outcome: acknowledged, or permanently refused -> settled; refused, or unreached -> deferred with all
 *               behind it; unreached because the connection is lost -> forgotten, and the scan returns to it
 *     settled   until the outcome is written: the next id behind it -> ready; none -> the queue is closed
 */
import { backoffMs } from '../../../shared/base/backoff.ts';
import type { Outcome } from '../../kafka/face.ts';
import type { Scope } from '../event.ts';

export interface Waiting {
  readonly id: number;
  readonly scope: Scope;
  /** "dictionary:business key" */
  readonly key: string;
}

/** What is sent of an event. */
export interface Body {
  /** Refusals so far. */
  readonly attempts: number;
  readonly body: string;
}

/** The first event of a key that is deferred. */
export interface DeferredHead extends Waiting {
  /** Since it was deferred: for the backoff. */
  readonly retries: number;
  readonly refused: boolean;
}

export interface Refusal {
  /** This one included. */
  readonly attempts: number;
  readonly reason: string;
}

/** To be written; the queue goes on when it is. `refusal`: it was refused just now. */
export type RowUpdate = { readonly id: number; readonly queue: KeyQueue; readonly refusal?: Refusal | undefined } & (
  | {
      /**
       * attempt: refused by a topic that has its limit of blocked keys, so only the attempt is kept; behind: it waits behind
       * deferred events of its key; gone: it does not wait any more.
       */
      readonly kind: 'published' | 'dead' | 'attempt' | 'behind' | 'gone';
    }
  /** `ids`: with those behind it, in order. */
  | { readonly kind: 'deferred'; readonly ids: readonly number[]; readonly retries: number; readonly dueMs: number }
);

export interface QueueLimits {
  /** Keys in memory. */
  readonly keys: number;
  /** Ids in memory, and those of one key. */
  readonly ids: number;
  readonly idsOfKey: number;
  /** Bytes in flight; one event always may be. */
  readonly inFlightBytes: number;
  /** Keys of a topic that may be refused before nothing more of it is offered. */
  readonly blockedKeys: number;
  /** Refusals after which an event is a dead letter. */
  readonly maxAttempts: number;
}

/** Longer bodies are read again: some hundred events may be ready at a time. */
const keptChars = 8 * 1024;
/** The scan does not wait for a key whose event has been in flight for longer. */
const promptMs = 1_000;
/** With so many prompt events in flight the connection is busy, and the scan need not run ahead. */
const busyRows = 64;
/** After a refusal, and after an event came back unreached. */
const firstRetryMs = 1_000;
export const lastRetryMs = 60_000;

type State = 'ready' | 'inFlight' | 'settled' | 'empty';

export class KeyQueue {
  readonly scope: Scope;
  readonly key: string;
  readonly topic: Topic;
  /** In order, the head first. */
  ids: number[] = [];
  /** Later events of the key than this are not in memory. */
  lastId = 0;
  /** Set by KeyQueues only. */
  state: State = 'empty';
  sinceMs = 0;
  bytes = 0;
  /** Of the head, as it was scanned; undefined: to be read. */
  body: Body | undefined;
  attempts = 0;
  retries = 0;
  /** The head was refused before. */
  refused = false;
  /** There are deferred events of the key: new ones go behind them. */
  deferred = false;
  /** How many of its ids are to be written as deferred. */
  unwritten = 0;

  constructor({ scope, key }: Waiting, topic: Topic) {
    this.scope = scope;
    this.key = key;
    this.topic = topic;
  }

  get head(): number {
    return this.ids[0] ?? 0;
  }
}

/** A topic that refuses everything costs a bounded number of probes. */
class Topic {
  /** Keys whose first event was refused. */
  blocked = 0;
  /** In flight, without those that were refused before. */
  inFlight = 0;
  /** Its last outcome was a refusal: events in flight may be refused as well, and count as if they were. */
  lastWasRefused = false;
  /** The lowest id that was passed over. */
  passedOver = Number.POSITIVE_INFINITY;
  readonly queues = new Map<string, KeyQueue>();
  readonly #blockedKeys: number;

  constructor(blockedKeys: number) {
    this.#blockedKeys = blockedKeys;
  }

  get isFullOfBlocked(): boolean {
    return this.blocked >= this.#blockedKeys;
  }

  get isOpen(): boolean {
    return this.blocked + (this.lastWasRefused ? this.inFlight : 0) < this.#blockedKeys;
  }

  passOver(id: number): void {
    this.passedOver = Math.min(this.passedOver, id);
  }
}

export class KeyQueues {
  readonly #limits: QueueLimits;
  #keys = 0;
  readonly #topics = new Map<Scope, Topic>();
  readonly #ready = new Set<KeyQueue>();
  /** By their heads, in the order in which they were taken. */
  readonly #inFlight = new Map<number, KeyQueue>();
  /** Ids that are to be written as deferred. */
  readonly #unwritten = new Set<number>();
  #ids = 0;
  #scannedTo = 0;
  inFlightBytes = 0;

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  // ---- the scan

  /** The scan resumes behind this id: again further back when events passed over or forgotten may go. */
  position(): number {
    for (const topic of this.#topics.values()) {
      if (!topic.isOpen || topic.passedOver > this.#scannedTo) continue;
      this.#scannedTo = topic.passedOver - 1;
      topic.passedOver = Number.POSITIVE_INFINITY;
    }
    return this.#scannedTo;
  }

  advance(id: number): void {
    this.#scannedTo = id;
  }

  /**
   * About the next event of the scan; `isDeferred`: there are deferred events of its key. 'next': it is accounted for. 'wait':
   * there is no room, ask again later.
   */
  scanned(row: Waiting & Body, isDeferred: boolean, nowMs: number): 'next' | 'wait' | RowUpdate {
    const queue = this.#queueOf(row);
    if (queue === undefined) return this.#scannedFree(row, isDeferred);
    if (row.id <= queue.lastId || this.#unwritten.has(row.id)) return 'next';
    if (queue.deferred) return this.#behind(queue, row.id);
    if (this.#ids < this.#limits.ids && queue.ids.length < this.#limits.idsOfKey) {
      this.#push(queue, row.id);
      return 'next';
    }
    return this.#promptRows(nowMs) >= busyRows ? 'wait' : this.#behind(queue, row.id);
  }

  #scannedFree(row: Waiting & Body, isDeferred: boolean): 'next' | 'wait' | RowUpdate {
    const topic = this.topicOf(row.scope);
    if (!topic.isOpen) {
      topic.passOver(row.id);
      return 'next';
    }
    if (this.#keys >= this.#limits.keys) return 'wait';
    const queue = this.#open(row);
    if (isDeferred) return this.#behind(queue, row.id);
    this.#push(queue, row.id);
    if (row.body.length <= keptChars) queue.body = row;
    this.#move(queue, 'ready');
    return 'next';
  }

  #behind(queue: KeyQueue, id: number): RowUpdate {
    queue.deferred = true;
    queue.unwritten++;
    this.#unwritten.add(id);
    return { kind: 'behind', id, queue };
  }

  #promptRows(nowMs: number): number {
    let slow = 0;
    for (const { sinceMs } of this.#inFlight.values()) {
      if (nowMs - sinceMs < promptMs) break;
      slow++;
    }
    return this.#inFlight.size - slow;
  }

  // ---- deferred events

  isInMemory(row: Waiting): boolean {
    return this.#queueOf(row) !== undefined;
  }

  /**
   * The first deferred event of a key is sent again, unless its topic is closed, or an earlier one is in memory or still to be
   * scanned.
   */
  claim(head: DeferredHead): boolean {
    // Those refused are few.
    const mayGo = head.refused || (this.topicOf(head.scope).isOpen && this.#keys < this.#limits.keys);
    if (!mayGo || head.id > this.position() || this.isInMemory(head)) return false;
    const queue = this.#open(head);
    queue.deferred = true;
    queue.retries = head.retries;
    queue.refused = head.refused;
    this.#push(queue, head.id);
    this.#move(queue, 'ready');
    return true;
  }

  // ---- events that are sent

  /** Keys whose head may be offered. Those of a topic that has closed since make room. */
  *ready(): Generator<KeyQueue> {
    for (const queue of this.#ready) {
      if (queue.refused || queue.topic.isOpen) yield queue;
      else this.#passOver(queue);
    }
  }

  #passOver(queue: KeyQueue): void {
    queue.topic.passOver(queue.head);
    this.#forget(queue);
  }

  hasRoomFor(bytes: number): boolean {
    return this.#inFlight.size === 0 || this.inFlightBytes + bytes <= this.#limits.inFlightBytes;
  }

  /** The broker has it. */
  taken(
    queue: KeyQueue,
    { bytes, attempts }: { readonly bytes: number; readonly attempts: number },
    nowMs: number,
  ): void {
    Object.assign(queue, { body: undefined, bytes, attempts, sinceMs: nowMs });
    this.#move(queue, 'inFlight');
    this.inFlightBytes += bytes;
    if (!queue.refused) queue.topic.inFlight++;
  }

  /** The head no longer waits. */
  gone(queue: KeyQueue): RowUpdate {
    this.#move(queue, 'settled');
    return { kind: 'gone', id: queue.head, queue };
  }

  // ---- outcomes

  /** undefined: nothing is to be written. `isConnected`: the broker can be reached now. */
  settled(id: number, outcome: Outcome, isConnected: boolean, nowMs: number): RowUpdate | undefined {
    const queue = this.#inFlight.get(id);
    if (queue === undefined) return undefined;
    const { topic } = queue;
    this.inFlightBytes -= queue.bytes;
    if (!queue.refused) topic.inFlight--;
    topic.lastWasRefused = outcome.kind === 'refused' && !outcome.permanent;
    this.#move(queue, 'settled');
    switch (outcome.kind) {
      case 'acknowledged':
        this.#unblock(queue);
        return { kind: 'published', id, queue };
      case 'unreached':
        if (isConnected) {
          // The topic does not refuse everything; keys that are not reached must not keep it closed.
          this.#unblock(queue);
          return this.#defer(queue, undefined, nowMs);
        }
        this.#scannedTo = Math.min(this.#scannedTo, id - 1);
        this.#forget(queue);
        return undefined;
      case 'refused':
        return this.#refused(queue, outcome.reason, outcome.permanent, nowMs);
    }
  }

  #refused(queue: KeyQueue, reason: string, permanent: boolean, nowMs: number): RowUpdate {
    const refusal = { attempts: queue.attempts + 1, reason };
    const id = queue.head;
    if (permanent || refusal.attempts > this.#limits.maxAttempts) {
      this.#unblock(queue);
      return { kind: 'dead', id, queue, refusal };
    }
    if (!queue.refused) {
      // With deferred events behind it, it must be the first of them.
      if (queue.topic.isFullOfBlocked && !queue.deferred) return { kind: 'attempt', id, queue, refusal };
      queue.refused = true;
      queue.topic.blocked++;
    }
    return this.#defer(queue, refusal, nowMs);
  }

  #unblock(queue: KeyQueue): void {
    if (queue.refused) queue.topic.blocked--;
    queue.refused = false;
  }

  #defer(queue: KeyQueue, refusal: Refusal | undefined, nowMs: number): RowUpdate {
    queue.deferred = true;
    const dueMs = Math.ceil(nowMs + backoffMs(queue.retries, firstRetryMs, lastRetryMs));
    const retries = queue.retries + 1;
    return { kind: 'deferred', id: queue.head, queue, ids: [...queue.ids], retries, dueMs, refusal };
  }

  /** Costs nothing: what was deferred still is, the rest is scanned again. */
  #forget(queue: KeyQueue): void {
    this.#empty(queue);
    queue.lastId = 0;
    this.#close(queue);
  }

  /** What settled(), scanned() or gone() wanted written is committed. */
  written({ kind, id, queue }: RowUpdate): void {
    if (kind === 'behind') {
      queue.unwritten--;
      this.#unwritten.delete(id);
      if (queue.state === 'empty') this.#close(queue);
      return;
    }
    if (kind === 'attempt') this.#passOver(queue);
    else if (kind === 'deferred') this.#empty(queue);
    else this.#shift(queue);
    if (queue.ids.length === 0) this.#close(queue);
    else this.#move(queue, 'ready');
  }

  // ---- changes of a queue

  topicOf(scope: Scope): Topic {
    let topic = this.#topics.get(scope);
    if (topic === undefined) this.#topics.set(scope, (topic = new Topic(this.#limits.blockedKeys)));
    return topic;
  }

  #queueOf({ scope, key }: Waiting): KeyQueue | undefined {
    return this.topicOf(scope).queues.get(key);
  }

  #open(row: Waiting): KeyQueue {
    const topic = this.topicOf(row.scope);
    const queue = new KeyQueue(row, topic);
    topic.queues.set(row.key, queue);
    this.#keys++;
    return queue;
  }

  #push(queue: KeyQueue, id: number): void {
    // An array that grows from nothing has room for 17.
    if (queue.ids.length === 0) queue.ids = [id];
    else queue.ids.push(id);
    queue.lastId = id;
    this.#ids++;
  }

  #shift(queue: KeyQueue): void {
    queue.ids.shift();
    this.#ids--;
    queue.retries = 0;
    this.#unblock(queue);
  }

  #empty(queue: KeyQueue): void {
    this.#ids -= queue.ids.length;
    queue.ids = [];
  }

  /** Ids that are still to be written keep it. */
  #close(queue: KeyQueue): void {
    this.#move(queue, 'empty');
    if (queue.unwritten === 0 && queue.topic.queues.delete(queue.key)) this.#keys--;
  }

  #move(queue: KeyQueue, state: State): void {
    if (queue.state === 'ready') this.#ready.delete(queue);
    if (queue.state === 'inFlight') this.#inFlight.delete(queue.head);
    queue.state = state;
    if (state === 'ready') this.#ready.add(queue);
    if (state === 'inFlight') this.#inFlight.set(queue.head, queue);
  }

  // ---- status

  get inFlight(): number {
    return this.#inFlight.size;
  }

  /** Ids and keys: what the limits bound. */
  get inMemory(): number {
    return this.#keys + this.#ids;
  }

  /** Nothing is in memory, and nothing was passed over. */
  get isEmpty(): boolean {
    return (
      this.inMemory === 0 &&
      [...this.#topics.values()].every(({ passedOver }) => passedOver === Number.POSITIVE_INFINITY)
    );
  }
}
