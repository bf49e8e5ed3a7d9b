/** The latest entries, in memory, for live readers. Bounded by bytes; ids are consecutive, so a place is a subtraction. */
import { costOf, type LogEntry } from './entry.ts';
import { Fifo } from './fifo.ts';

/** A run for one reader: enough to make a batch worthwhile, small enough to stay fair among 100 readers. */
export const runEntries = 256;
export const runBytes = 64 * 1024;

export class Tail {
  readonly #entries = new Fifo<LogEntry>();
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
    while (this.#cost > this.#maxBytes && this.#entries.length > 1) {
      const oldest = this.#entries.shift();
      if (oldest === undefined) return;
      this.#cost -= costOf(oldest);
      this.#firstId++;
    }
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
      bytes += this.#entries.at(to)?.data.length ?? 0;
      to++;
    }
    const run = this.#entries.slice(from, to);
    this.#last = { after: id, head, run };
    return run;
  }

  /** What readers get of the entries' stamps has changed. */
  remark(mark: (entry: LogEntry) => LogEntry): void {
    this.#entries.replaceAll(this.#entries.slice(0, this.#entries.length).map(mark));
    this.#last = undefined;
  }

  /** Ids were handed out before the log was known: all move up. */
  rebase(offset: number): void {
    const moved = this.#entries.slice(0, this.#entries.length).map((entry) => ({ ...entry, id: entry.id + offset }));
    this.#entries.replaceAll(moved);
    this.#firstId += offset;
    this.#last = undefined;
  }
}
