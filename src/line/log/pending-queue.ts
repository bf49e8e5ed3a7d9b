/** Entries that wait to be stored, and the ranges that no longer can be. Bounded: the oldest go first. */

import type { Clock, Timer } from '../../shared/base/clock.ts';
import { addGap, costOf, gapOf, type LogEntry, type LogGap } from './entry.ts';
import { Fifo } from './fifo.ts';

/** A caller of store(), who learns what became of the entry. */
export interface Waiter {
  resolve(entry: LogEntry): void;
  reject(error: Error): void;
}

interface Item {
  readonly entry: LogEntry;
  readonly waiter: Waiter | undefined;
}

export interface Taken {
  readonly items: readonly Item[];
  readonly gaps: readonly LogGap[];
  readonly cost: number;
}

export class PendingQueue {
  readonly #items = new Fifo<Item>();
  #gaps: LogGap[] = [];
  #cost = 0;
  #waiting = 0;

  get length(): number {
    return this.#items.length;
  }

  /** Bytes charged. */
  get cost(): number {
    return this.#cost;
  }

  /** Callers of store() among the entries. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Lost ranges that no commit has recorded yet. */
  get gaps(): readonly LogGap[] {
    return this.#gaps;
  }

  get empty(): boolean {
    return this.#items.length === 0 && this.#gaps.length === 0;
  }

  push(item: Item): void {
    this.#items.push(item);
    this.#cost += costOf(item.entry);
    if (item.waiter !== undefined) this.#waiting++;
  }

  /** The oldest entries up to maxCost (at least one), and the lost ranges before and between them. */
  take(maxCost: number): Taken {
    const items: Item[] = [];
    let cost = 0;
    for (;;) {
      const next = this.#items.at(0);
      if (next === undefined || (items.length > 0 && cost + costOf(next.entry) > maxCost)) break;
      items.push(next);
      cost += costOf(next.entry);
      this.#removeFirst();
    }
    const lastId = items.at(-1)?.entry.id ?? 0;
    const upTo = this.#items.length === 0 ? Number.POSITIVE_INFINITY : lastId;
    const gaps = this.#gaps.filter((gap) => gap.firstId <= upTo);
    this.#gaps = this.#gaps.filter((gap) => gap.firstId > upTo);
    return { items, gaps, cost };
  }

  /** Undoes a take. */
  putBack(taken: Taken): void {
    const items = [...taken.items, ...this.#items.slice(0, this.#items.length)];
    for (const gap of taken.gaps) addGap(this.#gaps, gap);
    this.#replace(items);
  }

  /** Takes out the entries of waiting callers and counts them as lost. */
  dropWaiting(reason: string): Item[] {
    if (this.#waiting === 0) return [];
    const all = this.#items.slice(0, this.#items.length);
    const dropped = all.filter((item) => item.waiter !== undefined);
    this.#replace(all.filter((item) => item.waiter === undefined));
    for (const { entry } of dropped) addGap(this.#gaps, gapOf(entry, reason));
    return dropped;
  }

  /** Drops the oldest until no more than maxCost is held. */
  dropOldest(maxCost: number, reason: string): Item[] {
    const dropped: Item[] = [];
    while (this.#cost > maxCost) {
      const item = this.#items.at(0);
      if (item === undefined) break;
      this.#removeFirst();
      addGap(this.#gaps, gapOf(item.entry, reason));
      dropped.push(item);
    }
    return dropped;
  }

  /** Ids were handed out before the log was known: all move up. */
  rebase(offset: number): void {
    const items = this.#items.slice(0, this.#items.length);
    this.#replace(items.map(({ entry, waiter }) => ({ entry: { ...entry, id: entry.id + offset }, waiter })));
    this.#gaps = this.#gaps.map((gap) => ({ ...gap, firstId: gap.firstId + offset, lastId: gap.lastId + offset }));
  }

  #removeFirst(): void {
    const item = this.#items.shift();
    if (item === undefined) return;
    this.#cost -= costOf(item.entry);
    if (item.waiter !== undefined) this.#waiting--;
  }

  #replace(items: readonly Item[]): void {
    this.#items.replaceAll(items);
    this.#cost = 0;
    this.#waiting = 0;
    for (const { entry, waiter } of items) {
      this.#cost += costOf(entry);
      if (waiter !== undefined) this.#waiting++;
    }
  }
}

/** An fsync of half a second is a slow card; nothing for longer is a hang. */
const progressMs = 500;

export class Pressure {
  readonly #clock: Clock;
  readonly #pressAt: number;
  readonly #relieveAt: number;
  readonly #calls: (() => void)[] = [];
  #progressAt = Number.NEGATIVE_INFINITY;
  #timer: Timer | undefined;
  #pressed = false;

  constructor(clock: Clock, queueBytes: number) {
    this.#clock = clock;
    this.#pressAt = queueBytes / 2;
    this.#relieveAt = queueBytes / 4;
  }

  get pressed(): boolean {
    return this.#pressed;
  }

  onRelieved(call: () => void): void {
    this.#calls.push(call);
  }

  /** A batch was handed over or acknowledged. */
  progress(): void {
    this.#progressAt = this.#clock.monoMs();
  }

  measure(bytes: number, healthy: boolean): void {
    const left = this.#progressAt + progressMs - this.#clock.monoMs();
    const moving = healthy && left > 0;
    const limit = this.#pressed ? this.#relieveAt : this.#pressAt;
    this.#set(moving && bytes > limit);
    if (this.#pressed) this.#timer ??= this.#clock.timer(left, () => this.#expire(bytes, healthy));
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#set(false);
  }

  #expire(bytes: number, healthy: boolean): void {
    this.#timer = undefined;
    this.measure(bytes, healthy);
  }

  #set(pressed: boolean): void {
    if (pressed === this.#pressed) return;
    this.#pressed = pressed;
    if (pressed) return;
    this.#timer?.cancel();
    this.#timer = undefined;
    for (const call of this.#calls) call();
  }
}
