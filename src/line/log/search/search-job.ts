/** A search on its way through the stored log, in steps: the thread of searches runs them, the line's thread asks for each. */
import { systemClock } from '../../../shared/base/clock.ts';
import { type Direction, type EntryClock, RX, TX, type Uint64 } from '../entry.ts';
import { type Filter, matcher } from '../packed.ts';
import { correct } from '../segments.ts';
import { BlockUnpacker, UnpackedBlock } from './block-unpacker.ts';
import { finderOf, type Pattern } from './pattern.ts';
import { BlockQueue, reachEntries, StoreReader } from './store-reader.ts';
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
  /** By direction; undefined: its bytes are not searched. */
  readonly #windows: readonly (SearchWindow | undefined)[];
  /** Made once, as blocks are many (BlockQueue). */
  readonly #run = { dir: 0, block: new UnpackedBlock(), firstId: 0, first: 0, count: 0, from: 0, to: 0 };
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
    this.#windows = directions.map((one) => this.#directions.find(({ dir }) => dir === one)?.window);
    this.#matches = sinceMs === undefined && untilMs === undefined ? undefined : matcher({ sinceMs, untilMs });
    this.#at = query.after === 0 ? 0 : this.#store.lookBack(query.after);
  }

  step(): StepResult {
    const startMs = systemClock.monoMs();
    this.#entries = 0;
    this.#bytes = 0;
    if (this.#blocks.isEmpty) this.#read();
    for (let block = this.#blocks.take(); block !== undefined; block = this.#blocks.take()) {
      this.#searchBlock(block, this.#unpacker.unpack(block));
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
  #searchBlock({ first: blockFirst }: { readonly first: number }, block: UnpackedBlock): void {
    const count = Math.min(block.count, this.#query.upTo - blockFirst + 1);
    let at = block.from;
    this.#run.block = block;
    this.#beginRun(TX, 0, at);
    for (let i = 0; i < count; i++) {
      const id = blockFirst + i;
      const dir = block.dir(i);
      const length = block.dataLength(i);
      const isOut = id <= this.#at || !this.#isOfTime(id, block, i);
      if (dir !== this.#run.dir || isOut) {
        this.#endRun(blockFirst, i, at);
        this.#beginRun(dir, i, at);
      }
      at += length;
      this.#entries++;
      this.#bytes += length;
      if (isOut) {
        if (id > this.#at) this.#windows[dir]?.search(true);
        this.#beginRun(dir, i + 1, at);
      }
      const noteLength = block.noteLength(i);
      if (noteLength === 0) continue;
      this.#endRun(blockFirst, i + 1, at);
      at += noteLength;
      this.#beginRun(dir, i + 1, at);
    }
    this.#endRun(blockFirst, count, at);
  }

  #beginRun(dir: number, first: number, from: number): void {
    this.#run.dir = dir;
    this.#run.first = first;
    this.#run.from = from;
  }

  #endRun(blockFirst: number, next: number, to: number): void {
    const run = this.#run;
    run.firstId = blockFirst + run.first;
    run.count = next - run.first;
    run.to = to;
    if (run.count > 0) this.#windows[run.dir]?.add(run);
  }

  #isOfTime(id: number, block: UnpackedBlock, i: number): boolean {
    if (this.#matches === undefined) return true;
    const correctionMs = block.isGiven(i) ? 0 : this.#store.segments.markAt(id).correctionMs;
    return this.#matches({ dir: TX, timestampMs: correct(block.stampedMs(i), correctionMs) });
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
