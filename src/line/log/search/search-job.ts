/** A search on its way through the stored log, in steps: the thread of searches runs them, the line's thread asks for each. */
import { systemClock } from '../../../shared/base/clock.ts';
import { type Direction, type EntryClock, RX, TX, type Uint64 } from '../entry.ts';
import { type Filter, matcher } from '../packed.ts';
import { correct } from '../segments.ts';
import { type BlockEntries, BlockUnpacker } from './block-unpacker.ts';
import { finderOf, type Pattern } from './pattern.ts';
import { BlockQueue, type QueuedBlock, reachEntries, StoreReader } from './store-reader.ts';
import { SearchWindow, type WindowMatch } from './window.ts';

export interface SearchQuery extends Filter {
  readonly pattern: Pattern;
  /** Matches that end in an entry with a greater id. */
  readonly after: number;
  readonly upTo: number;
  /** After so many the search ends; the rest of the entry that the last one ends in comes too. */
  readonly limit: number;
}

export interface SearchMatch extends Omit<WindowMatch, 'stampedMs' | 'isGiven'> {
  readonly dir: Direction;
  readonly timestampMs: Uint64;
  readonly clock: EntryClock | undefined;
}

export interface StepResult {
  /** In the order of the entries that they end in. */
  readonly matches: readonly SearchMatch[];
  /** Of this step. */
  readonly entries: number;
  readonly bytes: number;
  /** Every match that ends in an entry up to this one has come. */
  readonly throughId: number;
  readonly done: 'complete' | 'limit' | undefined;
}

/** Of searching in one step, beside a window's own search. */
const stepMs = 20;
/** The last match of a page may lie in an entry that has so many more. */
const maxOfEntry = 1_000;

export class SearchJob {
  readonly #query: SearchQuery;
  readonly #store: StoreReader;
  readonly #unpacker = new BlockUnpacker();
  readonly #directions: readonly DirectionSearch[];
  readonly #matches: ((entry: { dir: Direction; timestampMs: Uint64 }) => boolean) | undefined;
  /** Read, and not searched yet. */
  #blocks = new BlockQueue();
  #isRead = false;
  #at: number;
  #left: number;
  #entries = 0;
  #bytes = 0;

  /** Throws INVALID_ARGUMENT. */
  constructor(dir: string, logId: string, query: SearchQuery) {
    const { pattern, dir: wanted, sinceMs, untilMs, limit } = query;
    this.#query = query;
    this.#store = new StoreReader(dir, logId);
    this.#left = limit;
    const directions = [TX, RX] as const;
    this.#directions = directions
      .filter((one) => wanted === undefined || wanted === one)
      .map((one) => new DirectionSearch(one, pattern, query.after, limit));
    this.#matches = sinceMs === undefined && untilMs === undefined ? undefined : matcher({ sinceMs, untilMs });
    this.#at = query.after === 0 ? 0 : this.#store.lookBack(query.after);
  }

  step(): StepResult {
    const startMs = systemClock.monoMs();
    this.#entries = 0;
    this.#bytes = 0;
    if (this.#blocks.isEmpty) this.#read();
    for (let block = this.#blocks.take(); block !== undefined; block = this.#blocks.take()) {
      this.#searchBlock(block);
      this.#at = Math.min(this.#query.upTo, block.first + block.entries - 1);
      if (systemClock.monoMs() - startMs >= stepMs) break;
    }
    const isComplete = this.#blocks.isEmpty && (this.#isRead || this.#at >= this.#query.upTo);
    for (const { window } of this.#directions) {
      window.search(isComplete);
      // A match waits for the next bytes of its direction, but not longer: a page that ends meanwhile resumes before it.
      if ((window.waitingId ?? this.#at) <= this.#at - reachEntries) window.settle();
    }
    return this.#result(isComplete);
  }

  #read(): void {
    const { upTo, sinceMs, untilMs } = this.#query;
    const { blocks, isSkipped, isLast } = this.#store.blocks({ after: this.#at, upTo, sinceMs, untilMs });
    if (isSkipped) for (const { window } of this.#directions) window.search(true);
    this.#blocks = blocks;
    this.#isRead = isLast;
  }

  /** Matches behind one that waits are kept for a later step: a page resumes at an entry, and all before it have come. */
  #result(isComplete: boolean): StepResult {
    const { upTo, after } = this.#query;
    const counts = { entries: this.#entries, bytes: this.#bytes };
    const waiting = this.#directions.map(({ window }) => (window.waitingId ?? Number.POSITIVE_INFINITY) - 1);
    const throughId = isComplete ? upTo : Math.max(after, Math.min(this.#at, ...waiting));
    const all = this.#directions.flatMap(({ found }) => found).sort(inOrder);
    const last = all[this.#left - 1];
    if (last !== undefined && last.throughId <= throughId) {
      const matches = this.#marked(all.filter((match) => match.throughId <= last.throughId));
      return { ...counts, matches, throughId: last.throughId, done: 'limit' };
    }
    const matches = this.#marked(this.#directions.flatMap((direction) => direction.take(throughId)).sort(inOrder));
    this.#left -= matches.length;
    return { ...counts, matches, throughId, done: isComplete ? 'complete' : undefined };
  }

  #marked(found: readonly Found[]): SearchMatch[] {
    return found.map(({ stampedMs, isGiven, ...match }) => {
      const { clock, correctionMs } = this.#store.segments.markAt(match.entryId);
      if (isGiven) return { ...match, timestampMs: stampedMs, clock: undefined };
      return { ...match, timestampMs: correct(stampedMs, correctionMs), clock };
    });
  }

  /** In runs of entries of one direction whose data follow each other. */
  #searchBlock(block: QueuedBlock): void {
    const { entries, bytes, from } = this.#unpacker.unpack(block);
    const count = Math.min(entries.count, this.#query.upTo - block.first + 1);
    let at = from;
    let run = { dir: 0, first: 0, from };
    const endRun = (next: number, dir: number): void => {
      const window = next > run.first && at > run.from ? this.#directionOf(run.dir)?.window : undefined;
      const { first, from: runFrom } = run;
      const count = next - first;
      window?.add({ entries, firstId: block.first + first, first, count, from: runFrom, to: at }, bytes);
      run = { dir, first: next, from: at };
    };
    for (let i = 0; i < count; i++) {
      const dir = entries.dir(i);
      const length = entries.dataLength(i);
      const isOut = block.first + i <= this.#at || !this.#isOfTime(block.first + i, entries, i);
      if (dir !== run.dir || isOut) endRun(i, dir);
      at += length;
      this.#entries++;
      this.#bytes += length;
      if (isOut) {
        if (block.first + i > this.#at) this.#directionOf(dir)?.window.search(true);
        run = { dir, first: i + 1, from: at };
      }
      const noteLength = entries.noteLength(i);
      if (noteLength === 0) continue;
      endRun(i + 1, dir);
      at += noteLength;
      run.from = at;
    }
    endRun(count, 0);
  }

  #directionOf(dir: number): DirectionSearch | undefined {
    return this.#directions.find((one) => one.dir === dir);
  }

  #isOfTime(id: number, entries: BlockEntries, i: number): boolean {
    if (this.#matches === undefined) return true;
    const correctionMs = entries.isGiven(i) ? 0 : this.#store.segments.markAt(id).correctionMs;
    return this.#matches({ dir: TX, timestampMs: correct(entries.stampedMs(i), correctionMs) });
  }
}

type Found = WindowMatch & { readonly dir: Direction };

function inOrder(a: Found, b: Found): number {
  return a.throughId - b.throughId || a.entryId - b.entryId || a.offset - b.offset;
}

/** The bytes of one direction: a match may lie in several of its entries, whatever the other one does in between. */
class DirectionSearch {
  readonly dir: Direction;
  readonly window: SearchWindow;
  /** And not answered yet; in their order. */
  found: Found[] = [];

  constructor(dir: Direction, pattern: Pattern, after: number, limit: number) {
    this.dir = dir;
    this.window = new SearchWindow(finderOf(pattern), (match) => {
      if (match.throughId > after) this.found.push({ ...match, dir });
      const isEntryWhole = match.throughId !== this.found[limit - 1]?.throughId;
      return this.found.length <= limit || (!isEntryWhole && this.found.length < limit + maxOfEntry);
    });
  }

  take(throughId: number): Found[] {
    const later = this.found.findIndex((match) => match.throughId > throughId);
    return this.found.splice(0, later === -1 ? this.found.length : later);
  }
}
