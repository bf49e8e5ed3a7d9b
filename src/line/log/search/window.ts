/**
 * The bytes of one direction as a search needs them: what entries hold, one after the other, as much of it as a match may
 * still begin in. Pure.
 */
import { fromHalves, type Uint64 } from '../entry.ts';
import type { UnpackedBlock } from './block-unpacker.ts';
import type { Finder } from './pattern.ts';

/** A match as it lies in the entries of one direction. */
export interface WindowMatch {
  /** Of its first byte, and the byte's place in that entry. */
  readonly entryId: number;
  readonly offset: number;
  readonly length: number;
  /** Of its last byte. */
  readonly throughId: number;
  /** The first entry's stamp as it was made. */
  readonly stampedMs: Uint64;
  readonly isGiven: boolean;
}

/** Entries of a block whose data follow each other in its bytes. */
export interface Run {
  readonly block: UnpackedBlock;
  /** The first entry: its id, and its place in the block. */
  readonly firstId: number;
  readonly first: number;
  readonly count: number;
  /** Of their data in the bytes of the block. */
  readonly from: number;
  readonly to: number;
}

const firstBytes = 64 * 1024;

export class SearchWindow {
  readonly #finder: Finder;
  readonly #found: (match: WindowMatch) => boolean;
  #bytes = Buffer.allocUnsafe(firstBytes);
  #length = 0;
  /** Matches that begin before it were found. */
  #from = 0;
  #prepared = 0;
  /** Bytes whose matches do not wait any more. */
  #settled = 0;
  #isStopped = false;
  readonly #entries = new PlacedEntries();

  /** `found`: false when no more are wanted. */
  constructor(finder: Finder, found: (match: WindowMatch) => boolean) {
    this.#finder = finder;
    this.#found = found;
  }

  /** The entry in which the first match may end that is not found yet; undefined: all are found. */
  get waitingId(): number | undefined {
    const from = Math.max(this.#from, this.#settled);
    if (!this.#finder.waits || this.#isStopped || from >= this.#length) return undefined;
    return this.#entries.id(this.#entries.indexAt(from));
  }

  /** The run and its block are not needed afterwards. */
  add(run: Run): void {
    if (run.from === run.to || this.#isStopped) return;
    const end = this.#length + run.to - run.from;
    if (end > this.#bytes.length) this.#grow(end);
    run.block.bytes.copy(this.#bytes, this.#length, run.from, run.to);
    this.#entries.add(run, this.#length);
    this.#length = end;
    if (this.#length >= this.#finder.windowBytes) this.search(false);
  }

  /** Finds what there is. `isLast`: the bytes that follow, if any, belong to no match with these. */
  search(isLast: boolean): void {
    this.#search(isLast);
    if (isLast) this.#clear();
    else this.#dropBefore(Math.max(0, Math.min(this.#from, this.#length) - 1));
    this.#prepared = this.#length;
  }

  /** Finds the matches that wait for more bytes, as if there were none. */
  settle(): void {
    this.#search(true);
    this.#settled = this.#length;
  }

  #search(isFinal: boolean): void {
    if (this.#length === 0 || this.#isStopped) return;
    this.#finder.prepare(this.#bytes, this.#prepared, this.#length);
    const found = (start: number, end: number): boolean => {
      this.#isStopped = !this.#found(this.#match(start, end));
      return !this.#isStopped;
    };
    this.#from = this.#finder.search(this.#bytes, this.#from, this.#length, isFinal, found);
  }

  #grow(needed: number): void {
    const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.#bytes.length));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }

  #clear(): void {
    this.#length = 0;
    this.#from = 0;
    this.#settled = 0;
    this.#entries.clear();
  }

  /** One byte before the next search stays: an expression may look at it. */
  #dropBefore(at: number): void {
    if (at === 0) return;
    this.#bytes.copy(this.#bytes, 0, at, this.#length);
    this.#entries.dropBefore(at);
    this.#length -= at;
    this.#from -= at;
    this.#settled = Math.max(0, this.#settled - at);
  }

  #match(start: number, end: number): WindowMatch {
    const first = this.#entries.indexAt(start);
    return {
      entryId: this.#entries.id(first),
      offset: start - this.#entries.place(first),
      length: end - start,
      throughId: this.#entries.id(this.#entries.indexAt(end - 1)),
      stampedMs: this.#entries.stampedMs(first),
      isGiven: this.#entries.isGiven(first),
    };
  }
}

/** Of an entry in the array of PlacedEntries. */
const [idColumn, placeColumn, highColumn, lowColumn, givenColumn, columns] = [0, 1, 2, 3, 4, 5] as const;

/** The entries of a window, by where each begins in it: in one array, as objects for each block outlive garbage collections. */
class PlacedEntries {
  #rows = new Float64Array(columns * 256);
  #count = 0;

  add({ block, firstId, first, count }: Run, at: number): void {
    if (columns * (this.#count + count) > this.#rows.length) this.#grow(count);
    let row = columns * this.#count;
    let place = at;
    for (let i = first; i < first + count; i++) {
      const length = block.dataLength(i);
      if (length === 0) continue;
      this.#rows[row + idColumn] = firstId + i - first;
      this.#rows[row + placeColumn] = place;
      this.#rows[row + highColumn] = block.high(i);
      this.#rows[row + lowColumn] = block.low(i);
      this.#rows[row + givenColumn] = block.isGiven(i) ? 1 : 0;
      row += columns;
      place += length;
    }
    this.#count = row / columns;
  }

  id(i: number): number {
    return this.#number(i, idColumn);
  }

  /** Of its first byte; of the first entry it may be before the window. */
  place(i: number): number {
    return this.#number(i, placeColumn);
  }

  stampedMs(i: number): Uint64 {
    return fromHalves(this.#number(i, highColumn), this.#number(i, lowColumn));
  }

  isGiven(i: number): boolean {
    return this.#number(i, givenColumn) === 1;
  }

  /** The entry of the byte: the last that begins at it or before. */
  indexAt(at: number): number {
    let [from, to] = [0, this.#count];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.place(middle) <= at) from = middle + 1;
      else to = middle;
    }
    return from - 1;
  }

  /** The byte at `at` becomes the first one of the window. */
  dropBefore(at: number): void {
    const dropped = this.indexAt(at);
    this.#rows.copyWithin(0, columns * dropped, columns * this.#count);
    this.#count -= dropped;
    for (let row = 0; row < columns * this.#count; row += columns) {
      this.#rows[row + placeColumn] = (this.#rows[row + placeColumn] ?? 0) - at;
    }
  }

  clear(): void {
    this.#count = 0;
  }

  #number(i: number, column: number): number {
    return this.#rows[columns * i + column] ?? 0;
  }

  #grow(count: number): void {
    const larger = new Float64Array(Math.max(2 * this.#rows.length, columns * (this.#count + count)));
    larger.set(this.#rows);
    this.#rows = larger;
  }
}
