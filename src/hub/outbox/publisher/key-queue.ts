/** A lane: a key that has a row in hand, and what becomes of that row. Pure. */
import { Gap } from './backlog.ts';
import type { Slice, Topic } from './topic-state.ts';

export interface RowHead {
  readonly id: number;
  readonly topic: string;
  readonly key: string;
  /** Refusals so far. */
  readonly attempts: number;
  readonly bytes: number;
}

/** The row in hand. */
export type Head<R> =
  /** It may be offered. row undefined: to be read again by its id. */
  | { readonly kind: 'ready'; readonly id: number; readonly row: R | undefined }
  /** The broker has it. */
  | {
      readonly kind: 'flying';
      readonly id: number;
      readonly bytes: number;
      readonly attempts: number;
      readonly sinceMs: number;
    }
  /** Its outcome is being written. */
  | { readonly kind: 'settled'; readonly id: number; readonly sinceMs: number }
  /** To be tried again later. `refused`: it counts as blocked. */
  | { readonly kind: 'parked'; readonly id: number; readonly refused: boolean; readonly retryAtMs: number }
  /** None: the next row is among those passed over. */
  | { readonly kind: 'hungry' };

export class Lane<R> {
  /** Of its key: hashed once. */
  readonly name: string;
  readonly topicName: string;
  readonly key: string;
  readonly slice: Slice;
  readonly topic: Topic;
  /** Set by LaneTable.move() only. */
  head: Head<R> = { kind: 'hungry' };
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

/** All lanes: by their key, by the id of their head, by what becomes of it. */
export class LaneTable<R extends RowHead> {
  readonly #byKey = new Map<string, Lane<R>>();
  readonly #byHead = new Map<number, Lane<R>>();
  /** Each in the order in which the lanes came to it. */
  readonly #in: Readonly<Record<Head<R>['kind'], Set<Lane<R>>>> = {
    ready: new Set(),
    flying: new Set(),
    settled: new Set(),
    parked: new Set(),
    hungry: new Set(),
  };

  get size(): number {
    return this.#byKey.size;
  }

  /** Rows in hand. */
  get heads(): number {
    return this.#byHead.size;
  }

  all(): Iterable<Lane<R>> {
    return this.#byKey.values();
  }

  in(kind: Head<R>['kind']): ReadonlySet<Lane<R>> {
    return this.#in[kind];
  }

  of(row: RowHead): Lane<R> | undefined {
    return this.#byKey.get(nameOf(row));
  }

  withHead(id: number): Lane<R> | undefined {
    return this.#byHead.get(id);
  }

  open(row: RowHead, slice: Slice): Lane<R> {
    const name = nameOf(row);
    const lane = new Lane<R>(name, row, slice);
    this.#byKey.set(name, lane);
    this.#in.hungry.add(lane);
    return lane;
  }

  move(lane: Lane<R>, head: Head<R>): void {
    const [before, after] = [idOf(lane.head), idOf(head)];
    this.#in[lane.head.kind].delete(lane);
    this.#in[head.kind].add(lane);
    lane.head = head;
    if (before === after) return;
    if (before !== undefined) this.#byHead.delete(before);
    if (after !== undefined) this.#byHead.set(after, lane);
  }

  close(lane: Lane<R>): void {
    this.#in[lane.head.kind].delete(lane);
    if (lane.head.kind !== 'hungry') this.#byHead.delete(lane.head.id);
    this.#byKey.delete(lane.name);
  }
}

function idOf(head: Head<unknown>): number | undefined {
  return head.kind === 'hungry' ? undefined : head.id;
}

/** No topic's name has a space. */
function nameOf({ topic, key }: RowHead): string {
  return `${topic} ${key}`;
}
