/** The queue of a key: its head row, and the state of that row. Pure. */
import { Gap } from './backlog.ts';
import type { Slice, TopicState } from './topic-state.ts';

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
export class KeyQueues<R extends RowHead> {
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
