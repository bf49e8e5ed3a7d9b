/** What each topic may be offered: a topic that refuses everything costs a bounded number of probes. Pure. */
import { Gap } from './backlog.ts';

/**
 * Each topic's keys are divided among so many slices. Unreached keys are evicted by the slice, and one slice is tried at a
 * time; so keys pass `keys` x this many of a topic that are stuck, and no more than one gap a slice is kept.
 */
const slicesPerTopic = 64;

export class TopicState {
  readonly slices: readonly Slice[] = Array.from({ length: slicesPerTopic }, () => new Slice(this));
  /** Refused keys that wait to be retried. */
  blocked = 0;
  /** Rows in flight. */
  inFlight = 0;
  /** Its last outcome was a refusal: rows in flight may be refused as well, and count as if they were. */
  lastWasRefused = false;
  readonly #blockedKeys: number;

  constructor(blockedKeys: number) {
    this.#blockedKeys = blockedKeys;
  }

  get isFullOfBlocked(): boolean {
    return this.blocked >= this.#blockedKeys;
  }

  /** Rows other than those it has refused may be offered. */
  get isOpen(): boolean {
    return this.blocked + (this.lastWasRefused ? this.inFlight : 0) < this.#blockedKeys;
  }
}

/** The keys of a topic with the same hash. */
export class Slice {
  readonly topic: TopicState;
  /** Rows of its keys without a queue that were passed over: while it was not open, or because all queues were in use. */
  readonly gap = new Gap();
  /** Its unreached keys have made room for others, and none of its rows is sought before. */
  deferredToMs: number | undefined;

  constructor(topic: TopicState) {
    this.topic = topic;
  }

  get isOpen(): boolean {
    return this.deferredToMs === undefined && this.topic.isOpen;
  }

  /** Rows were passed over, and may be sent now. */
  get isSought(): boolean {
    return !this.gap.isEmpty && this.isOpen;
  }
}

export class TopicStates {
  readonly #blockedKeys: number;
  readonly #byName = new Map<string, TopicState>();
  /** In the order in which they were deferred. */
  readonly #deferred = new Set<Slice>();

  /** Keys of a topic that may be refused before nothing more of it is offered. */
  constructor(blockedKeys: number) {
    this.#blockedKeys = blockedKeys;
  }

  get(name: string): TopicState {
    let topic = this.#byName.get(name);
    if (topic === undefined) this.#byName.set(name, (topic = new TopicState(this.#blockedKeys)));
    return topic;
  }

  sliceOf({ topic, key }: { readonly topic: string; readonly key: string }): Slice {
    const { slices } = this.get(topic);
    const slice = slices[hashOf(key) % slices.length];
    if (slice === undefined) throw new RangeError('a topic without slices');
    return slice;
  }

  *all(): Generator<Slice> {
    for (const { slices } of this.#byName.values()) yield* slices;
  }

  sought(): readonly Slice[] {
    const sought: Slice[] = [];
    for (const slice of this.all()) if (slice.isSought) sought.push(slice);
    return sought;
  }

  defer(slice: Slice, toMs: number): void {
    slice.deferredToMs = toMs;
    this.#deferred.delete(slice);
    this.#deferred.add(slice);
  }

  /** The first deferred slice whose time has come is open again. False: there is none. */
  resumeOne(nowMs: number): boolean {
    for (const slice of this.#deferred) {
      if ((slice.deferredToMs ?? 0) > nowMs) continue;
      this.#resume(slice);
      return true;
    }
    return false;
  }

  resumeAll(): void {
    for (const slice of this.#deferred) this.#resume(slice);
  }

  #resume(slice: Slice): void {
    slice.deferredToMs = undefined;
    this.#deferred.delete(slice);
  }
}

/** FNV-1a, 32 bits, folded: the lowest bits alone see little of the key. */
function hashOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193);
  return (hash ^ (hash >>> 16)) >>> 0;
}
