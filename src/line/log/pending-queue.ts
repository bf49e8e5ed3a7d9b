/** Entries and events that wait to be stored, and the ranges that no longer can be. Bounded: the oldest go first. */

import type { Clock, Timer } from '../../shared/base/clock.ts';
import { addGap, costOf, gapOf, type LogEntry, type LogGap } from './entry.ts';
import type { NewEvent } from './store-client.ts';

/** Of a disk that fails for hours, the newest. */
const maxEvents = 1_000;

export interface Item {
  readonly entry: LogEntry;
  /** A caller of store() waits for the outcome. */
  readonly waiter: PromiseWithResolvers<LogEntry> | undefined;
}

export interface Taken {
  readonly items: readonly Item[];
  readonly gaps: readonly LogGap[];
  readonly events: readonly NewEvent[];
  readonly cost: number;
}

export class PendingQueue {
  #items: Item[] = [];
  #gaps: LogGap[] = [];
  #events: NewEvent[] = [];
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
    return this.#items.length === 0 && this.#gaps.length === 0 && this.#events.length === 0;
  }

  push(item: Item): void {
    this.#items.push(item);
    this.#cost += costOf(item.entry);
    if (item.waiter !== undefined) this.#waiting++;
  }

  pushEvents(events: readonly NewEvent[]): void {
    this.#events = [...this.#events, ...events].slice(-maxEvents);
  }

  /** The oldest entries up to maxCost (at least one), the lost ranges before and between them, and all events. */
  take(maxCost: number): Taken {
    let cost = 0;
    const first = this.#items.findIndex(({ entry }, i) => {
      cost += costOf(entry);
      return i > 0 && cost > maxCost;
    });
    const items = this.#takeFirst(first === -1 ? this.#items.length : first);
    const lastId = items.at(-1)?.entry.id ?? 0;
    const upTo = this.#items.length === 0 ? Number.POSITIVE_INFINITY : lastId;
    const gaps = this.#gaps.filter((gap) => gap.firstId <= upTo);
    this.#gaps = this.#gaps.filter((gap) => gap.firstId > upTo);
    return { items, gaps, events: this.#events.splice(0), cost: totalCost(items) };
  }

  /** Undoes a take. */
  putBack(taken: Taken): void {
    for (const gap of taken.gaps) addGap(this.#gaps, gap);
    this.#replace([...taken.items, ...this.#items]);
    this.#events = [...taken.events, ...this.#events].slice(-maxEvents);
  }

  /** Takes out the entries of waiting callers and counts them as lost. */
  dropWaiting(reason: string): Item[] {
    if (this.#waiting === 0) return [];
    const dropped = this.#items.filter((item) => item.waiter !== undefined);
    this.#replace(this.#items.filter((item) => item.waiter === undefined));
    for (const { entry } of dropped) addGap(this.#gaps, gapOf(entry, reason));
    return dropped;
  }

  /** Drops the oldest until no more than maxCost is held. */
  dropOldest(maxCost: number, reason: string): Item[] {
    let surplus = this.#cost - maxCost;
    const kept = this.#items.findIndex(({ entry }) => {
      if (surplus <= 0) return true;
      surplus -= costOf(entry);
      return false;
    });
    const dropped = this.#takeFirst(kept === -1 ? this.#items.length : kept);
    for (const { entry } of dropped) addGap(this.#gaps, gapOf(entry, reason));
    return dropped;
  }

  /** Ids were handed out before the log was known: all move up. */
  rebase(offset: number): void {
    this.#items = this.#items.map(({ entry, waiter }) => ({ entry: { ...entry, id: entry.id + offset }, waiter }));
    this.#gaps = this.#gaps.map((gap) => ({ ...gap, firstId: gap.firstId + offset, lastId: gap.lastId + offset }));
    this.#events = this.#events.map((event) => ({ ...event, afterId: event.afterId + offset }));
  }

  /** In one step: an item at a time would move all that follow. */
  #takeFirst(count: number): Item[] {
    const taken = this.#items.splice(0, count);
    this.#cost -= totalCost(taken);
    this.#waiting -= waitersIn(taken);
    return taken;
  }

  #replace(items: Item[]): void {
    this.#items = items;
    this.#cost = totalCost(items);
    this.#waiting = waitersIn(items);
  }
}

function totalCost(items: readonly Item[]): number {
  return items.reduce((sum, { entry }) => sum + costOf(entry), 0);
}

function waitersIn(items: readonly Item[]): number {
  return items.filter(({ waiter }) => waiter !== undefined).length;
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
    if (!this.#pressed) return;
    this.#timer ??= this.#clock.timer(left, () => {
      this.#timer = undefined;
      this.measure(bytes, healthy);
    });
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#set(false);
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
