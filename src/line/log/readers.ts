/** What readers share: the live tail, the stored log, and the moments to look again. */

import { systemCode } from '../../shared/base/errors.ts';
import { isDamage } from './damage.ts';
import { ReadBudget } from './read-budget.ts';
import type { Page, ReadPageRequest, RemoteStore } from './store-face.ts';
import type { Tail } from './tail.ts';
import type { TimeMarks } from './time-marks.ts';

export interface Wakeable {
  wake(): void;
  rebase(offset: number): void;
}

export class Readers {
  readonly tail: Tail;
  readonly marks: TimeMarks;
  readonly budget = new ReadBudget();
  readonly #store: RemoteStore;
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

  constructor(tail: Tail, marks: TimeMarks, store: RemoteStore, report: (error: unknown) => void) {
    this.tail = tail;
    this.marks = marks;
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
    return this.#store.startOfLast(entries, upTo);
  }

  /** undefined: the store is being repaired; look again when woken. */
  async page(request: ReadPageRequest): Promise<Page | undefined> {
    try {
      return await this.#store.read(request);
    } catch (error) {
      if (!isDamage(error) && systemCode(error) !== 'WORKER_EXITED') throw error;
      this.#report(error);
      return undefined;
    }
  }
}
