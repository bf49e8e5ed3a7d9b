/** What each topic may be offered: a topic that refuses everything costs a bounded number of probes. Pure. */
import { Gap } from './backlog.ts';

/**
 * Each topic's keys are shared out among so many slices. Keys that nothing reaches are given up by the slice, and one slice
 * is tried at a time; so keys go past `lanes` x this many of a topic that do not, and no more is kept than a gap a slice.
 */
const slicesPerTopic = 64;

export class Topic {
  readonly slices: readonly Slice[] = Array.from({ length: slicesPerTopic }, () => new Slice(this));
  /** Keys that stand refused, waiting to be tried again. */
  blocked = 0;
  /** Rows on their way. */
  flying = 0;
  /** Its last answer was a refusal: what is on its way may be refused as well, and counts as if it was. */
  suspect = false;
  readonly #blockedKeys: number;

  constructor(blockedKeys: number) {
    this.#blockedKeys = blockedKeys;
  }

  get isFullOfBlocked(): boolean {
    return this.blocked >= this.#blockedKeys;
  }

  /** It may be offered rows other than those it has refused. */
  get isOpen(): boolean {
    return this.blocked + (this.suspect ? this.flying : 0) < this.#blockedKeys;
  }
}

/** The keys of a topic with the same hash. */
export class Slice {
  readonly topic: Topic;
  /** Rows of its keys without a lane that were passed over: while it was not open, or for want of lanes. */
  readonly gap = new Gap();
  /** Its keys that nothing reached have made room for others, and none of its rows is sought before. */
  putOffToMs: number | undefined;

  constructor(topic: Topic) {
    this.topic = topic;
  }

  get isOpen(): boolean {
    return this.putOffToMs === undefined && this.topic.isOpen;
  }

  /** Rows were passed over, and may go now. */
  get isSought(): boolean {
    return !this.gap.isEmpty && this.isOpen;
  }
}

export class Topics {
  readonly #blockedKeys: number;
  readonly #byName = new Map<string, Topic>();
  /** In the order in which they were put off. */
  readonly #defer = new Set<Slice>();

  /** Keys of a topic that may stand refused before nothing more of it is offered. */
  constructor(blockedKeys: number) {
    this.#blockedKeys = blockedKeys;
  }

  get(name: string): Topic {
    let topic = this.#byName.get(name);
    if (topic === undefined) this.#byName.set(name, (topic = new Topic(this.#blockedKeys)));
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
    slice.putOffToMs = toMs;
    this.#defer.delete(slice);
    this.#defer.add(slice);
  }

  /** The first slice put off whose time has come is open again. False: there is none. */
  takeUpOne(nowMs: number): boolean {
    for (const slice of this.#defer) {
      if ((slice.putOffToMs ?? 0) > nowMs) continue;
      this.#resume(slice);
      return true;
    }
    return false;
  }

  takeUpAll(): void {
    for (const slice of this.#defer) this.#resume(slice);
  }

  #resume(slice: Slice): void {
    slice.putOffToMs = undefined;
    this.#defer.delete(slice);
  }
}

/** FNV-1a, 32 bits, folded: the lowest bits alone see little of the key. */
function hashOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < key.length; at++) hash = Math.imul(hash ^ key.charCodeAt(at), 0x01000193);
  return (hash ^ (hash >>> 16)) >>> 0;
}
