/** The latest entries, in memory, for live readers. Bounded by bytes; ids are consecutive, so a place is a subtraction. */
import { costOf, type LogEntry } from './entry.ts';

/** A run for one reader: enough to make a batch worthwhile, small enough to stay fair among 100 readers. */
export const runEntries = 256;
export const runBytes = 64 * 1024;

export class Tail {
  #entries: LogEntry[] = [];
  readonly #maxBytes: number;
  #cost = 0;
  /** Id of the oldest entry held; headId + 1 when there is none. */
  #firstId = 1;
  /** The run that was made last: 100 readers at the same id share it. */
  #last: { after: number; head: number; run: readonly LogEntry[] } | undefined;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  get firstId(): number {
    return this.#firstId;
  }

  get headId(): number {
    return this.#firstId + this.#entries.length - 1;
  }

  /** The entry's id must be headId + 1. */
  push(entry: LogEntry): void {
    this.#entries.push(entry);
    this.#cost += costOf(entry);
    if (this.#cost > this.#maxBytes) this.#dropOldest();
  }

  /** An eighth more than must be: one entry at a time would move all that follow, for each that comes. */
  #dropOldest(): void {
    let count = 0;
    for (; this.#cost > (this.#maxBytes * 7) / 8 && count < this.#entries.length - 1; count++) {
      const oldest = this.#entries[count];
      if (oldest !== undefined) this.#cost -= costOf(oldest);
    }
    this.#entries.splice(0, count);
    this.#firstId += count;
  }

  /** Entries that follow the id; undefined when the next one is no longer held. */
  after(id: number): readonly LogEntry[] | undefined {
    const from = id + 1 - this.#firstId;
    if (from < 0) return undefined;
    const head = this.headId;
    if (this.#last?.after === id && this.#last.head === head) return this.#last.run;
    let to = from;
    let bytes = 0;
    while (to < this.#entries.length && to - from < runEntries && bytes < runBytes) {
      bytes += this.#entries[to]?.data.length ?? 0;
      to++;
    }
    const run = this.#entries.slice(from, to);
    this.#last = { after: id, head, run };
    return run;
  }

  /** What readers get of the entries' stamps has changed. */
  remark(mark: (entry: LogEntry) => LogEntry): void {
    this.#entries = this.#entries.map(mark);
    this.#last = undefined;
  }

  /** Ids were handed out before the log was known: all move up. */
  rebase(offset: number): void {
    this.#entries = this.#entries.map((entry) => ({ ...entry, id: entry.id + offset }));
    this.#firstId += offset;
    this.#last = undefined;
  }
}
