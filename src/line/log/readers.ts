/** The state that readers share: the live tail, the stored log, the budget, and the wake-ups after a change. */

import type { Clock, Timer } from '../../shared/base/clock.ts';
import { systemCode } from '../../shared/base/errors.ts';
import { isDamage } from './failures.ts';
import type { Segments } from './segments.ts';
import type { Page, ReadPageRequest, StoreClient } from './store-client.ts';
import type { Tail } from './tail.ts';

export interface Wakeable {
  wake(): void;
  rebase(offset: number): void;
}

export class Readers {
  readonly tail: Tail;
  readonly segments: Segments;
  readonly budget: ReadBudget;
  readonly #store: StoreClient;
  readonly #report: (error: unknown) => void;
  readonly #all = new Set<Wakeable>();
  #waiting = new Set<Wakeable>();
  /** Every id up to this one is stored, lost, removed or was never used. */
  decidedId = 0;
  /** False until the log was opened: ids are provisional, and nothing can be read from storage. */
  opened = false;
  /** Ids up to this one were in a file that was damaged, removed or replaced. */
  replacedTo = 0;
  /** No new entries come: readers end when they have what is in memory. */
  closing = false;
  /** Readers end now. */
  closed = false;

  constructor(tail: Tail, segments: Segments, store: StoreClient, clock: Clock, report: (error: unknown) => void) {
    this.budget = new ReadBudget(clock);
    this.tail = tail;
    this.segments = segments;
    this.#store = store;
    this.#report = report;
  }

  get count(): number {
    return this.#all.size;
  }

  join(reader: Wakeable): void {
    this.#all.add(reader);
  }

  leave(reader: Wakeable): void {
    this.#all.delete(reader);
    this.#waiting.delete(reader);
  }

  /** The reader is woken once, at the next change. */
  wait(reader: Wakeable): void {
    this.#waiting.add(reader);
  }

  wakeAll(): void {
    if (this.#waiting.size === 0) return;
    const waiting = this.#waiting;
    this.#waiting = new Set();
    for (const reader of waiting) reader.wake();
  }

  rebase(offset: number): void {
    this.tail.rebase(offset);
    for (const reader of this.#all) reader.rebase(offset);
  }

  startOfLast(entries: number, upTo: number): Promise<number> {
    return this.#store.call('startOfLast', { entries, upTo });
  }

  /** undefined: the store is being repaired; try again at the next change. */
  async page(request: ReadPageRequest): Promise<Page | undefined> {
    try {
      return await this.#store.call('read', request);
    } catch (error) {
      if (!isDamage(error) && systemCode(error) !== 'WORKER_EXITED') throw error;
      this.#report(error);
      return undefined;
    }
  }
}

const KIB = 1024;
const MIB = 1024 * KIB;

/** A tenth of the memory that the unit gives the line. */
export const READ_BUDGET_BYTES = 32 * MIB;
/** What every reader may hold: a page of small entries, and room for the block that filled it. */
export const READER_ALLOWANCE_BYTES = 128 * KIB;
/** An entry waits as the page that it was read in, as a message, as the frame of the message, and twice in Node's streams. */
const COPIES = 5;

/** A client that has taken nothing for so long, while others wait for what it holds, has stopped: its stream is ended. */
export const STALLED_MS = 30_000;

interface Waiting {
  readonly bytes: number;
  readonly grant: () => void;
}

/** The charge for a run or page of so many bytes. A single one may always be charged: it is below the budget. */
export function chargeOf(bytes: number): number {
  return bytes <= READER_ALLOWANCE_BYTES ? 0 : Math.min(READ_BUDGET_BYTES, COPIES * bytes);
}

/** A reader whose client was handed a part of the budget. */
interface Holder {
  /** Its stream is to end, and to give back what it holds. */
  endStalled(): void;
}

export class ReadBudget {
  readonly #clock: Clock;
  #freeBytes = READ_BUDGET_BYTES;
  readonly #waiting = new Set<Waiting>();
  /** Since when each has it, the longest first. */
  readonly #holders = new Map<Holder, number>();
  #timer: Timer | undefined;
  #stalledReaders = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Readers that were ended because their clients had stopped. */
  get stalledReaders(): number {
    return this.#stalledReaders;
  }

  get usedBytes(): number {
    return READ_BUDGET_BYTES - this.#freeBytes;
  }

  get waitingReaders(): number {
    return this.#waiting.size;
  }

  /** False when others wait already or too little is free: then wait(). */
  take(bytes: number): boolean {
    if (bytes === 0) return true;
    if (this.#waiting.size > 0 || bytes > this.#freeBytes) return false;
    this.#freeBytes -= bytes;
    return true;
  }

  /** Calls `grant` when the bytes were taken; the function that it gives ends the wait. */
  wait(bytes: number, grant: () => void): () => void {
    const waiting = { bytes, grant };
    this.#waiting.add(waiting);
    this.#watch();
    return () => {
      if (this.#waiting.delete(waiting)) this.#serve();
    };
  }

  give(bytes: number): void {
    if (bytes === 0) return;
    this.#freeBytes += bytes;
    this.#serve();
  }

  /** A run was handed to the holder's client. */
  handedOut(holder: Holder): void {
    this.#holders.delete(holder);
    this.#holders.set(holder, this.#clock.monoMs());
    this.#watch();
  }

  /** The client has taken it, or its stream is over. */
  taken(holder: Holder): void {
    this.#holders.delete(holder);
  }

  /** While others wait: until the holder that has taken nothing for the longest time must be ended. */
  #watch(): void {
    const [sinceMs] = this.#holders.values();
    if (this.#timer !== undefined || this.#waiting.size === 0 || sinceMs === undefined) return;
    this.#timer = this.#clock.timer(Math.max(0, sinceMs + STALLED_MS - this.#clock.monoMs()), () => {
      this.#timer = undefined;
      this.#endStalled();
      this.#watch();
    });
  }

  #endStalled(): void {
    for (const [holder, sinceMs] of this.#holders) {
      if (this.#waiting.size === 0 || this.#clock.monoMs() - sinceMs < STALLED_MS) return;
      this.#holders.delete(holder);
      this.#stalledReaders++;
      holder.endStalled();
    }
  }

  #serve(): void {
    for (const waiting of this.#waiting) {
      if (waiting.bytes > this.#freeBytes) break;
      this.#waiting.delete(waiting);
      this.#freeBytes -= waiting.bytes;
      waiting.grant();
    }
    if (this.#waiting.size > 0) return;
    this.#timer?.cancel();
    this.#timer = undefined;
  }
}
