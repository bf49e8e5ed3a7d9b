/**
 * Packets that wait for the line. Bounded in packets and bytes, and fair: callers take turns, and each caller's
 * packets keep their order, so one who floods delays the others by one packet each and no more. Pure.
 */

interface Queued {
  readonly caller: string;
  readonly payload: Uint8Array;
}

export interface QueueLimits {
  readonly maxPackets: number;
  readonly maxBytes: number;
}

export class SendQueue<T extends Queued> {
  readonly #limits: QueueLimits;
  /** Insertion order is the order of turns. */
  readonly #byCaller = new Map<string, T[]>();
  #packets = 0;
  #bytes = 0;

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  get packets(): number {
    return this.#packets;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** False when the queue is full: the item is not taken. One packet is always taken by an empty queue. */
  push(item: T): boolean {
    const tooMany = this.#packets >= this.#limits.maxPackets;
    const tooLarge = this.#packets > 0 && this.#bytes + item.payload.length > this.#limits.maxBytes;
    if (tooMany || tooLarge) return false;
    const own = this.#byCaller.get(item.caller);
    if (own === undefined) this.#byCaller.set(item.caller, [item]);
    else own.push(item);
    this.#packets += 1;
    this.#bytes += item.payload.length;
    return true;
  }

  /** The oldest packet of the caller whose turn it is; its next turn comes after all others'. */
  next(): T | undefined {
    for (const [caller, own] of this.#byCaller) {
      const item = own.shift();
      this.#byCaller.delete(caller);
      if (own.length > 0) this.#byCaller.set(caller, own);
      if (item === undefined) continue;
      this.#count(item);
      return item;
    }
    return undefined;
  }

  /** False when it was not waiting any more. */
  remove(item: T): boolean {
    const own = this.#byCaller.get(item.caller);
    const at = own?.indexOf(item) ?? -1;
    if (own === undefined || at < 0) return false;
    own.splice(at, 1);
    if (own.length === 0) this.#byCaller.delete(item.caller);
    this.#count(item);
    return true;
  }

  /** Empties the queue and gives what waited, in turn order. */
  drain(): T[] {
    const all: T[] = [];
    for (let item = this.next(); item !== undefined; item = this.next()) all.push(item);
    return all;
  }

  #count(item: T): void {
    this.#packets -= 1;
    this.#bytes -= item.payload.length;
  }
}
