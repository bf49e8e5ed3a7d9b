/**
 * The bytes of one direction as a search needs them: what entries hold, one after the other, as much of it as a match may
 * still begin in. Pure.
 */
import type { Uint64 } from '../entry.ts';
import type { BlockEntries } from './block-unpacker.ts';
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
  readonly entries: BlockEntries;
  /** The first entry: its id, and its place in the block. */
  readonly firstId: number;
  readonly first: number;
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
  /** Where each begins, which for the first may be before the bytes. */
  #runs: { readonly run: Run; readonly at: number }[] = [];

  /** `found`: false when no more are wanted. */
  constructor(finder: Finder, found: (match: WindowMatch) => boolean) {
    this.#finder = finder;
    this.#found = found;
  }

  /** The entry in which the first match may end that is not found yet; undefined: all are found. */
  get waitingId(): number | undefined {
    const from = Math.max(this.#from, this.#settled);
    if (!this.#finder.waits || this.#isStopped || from >= this.#length) return undefined;
    return this.#entryAt(from).id;
  }

  /** `bytes`: of the block, which are not needed afterwards. */
  add(run: Run, bytes: Buffer): void {
    if (run.from === run.to || this.#isStopped) return;
    const end = this.#length + run.to - run.from;
    if (end > this.#bytes.length) this.#grow(end);
    bytes.copy(this.#bytes, this.#length, run.from, run.to);
    this.#runs.push({ run, at: this.#length });
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
    this.#runs = [];
  }

  /** One byte before the next search stays: an expression may look at it. */
  #dropBefore(at: number): void {
    if (at === 0) return;
    this.#bytes.copy(this.#bytes, 0, at, this.#length);
    this.#runs = this.#runs.slice(this.#indexAt(at)).map((one) => ({ run: one.run, at: one.at - at }));
    this.#length -= at;
    this.#from -= at;
    this.#settled = Math.max(0, this.#settled - at);
  }

  #match(start: number, end: number): WindowMatch {
    const { id, offset, entries, i } = this.#entryAt(start);
    return {
      entryId: id,
      offset,
      length: end - start,
      throughId: this.#entryAt(end - 1).id,
      stampedMs: entries.stampedMs(i),
      isGiven: entries.isGiven(i),
    };
  }

  /** The entry of a byte. */
  #entryAt(at: number) {
    const found = this.#runs[this.#indexAt(at)];
    if (found === undefined) throw new Error(`no entry at byte ${at}`);
    const { entries, first, firstId } = found.run;
    let offset = at - found.at;
    let i = first;
    for (let length = entries.dataLength(i); offset >= length; length = entries.dataLength(i)) {
      offset -= length;
      i++;
    }
    return { id: firstId + i - first, offset, entries, i };
  }

  /** The last run that begins at or before the byte. */
  #indexAt(at: number): number {
    let [from, to] = [0, this.#runs.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((this.#runs[middle]?.at ?? 0) <= at) from = middle + 1;
      else to = middle;
    }
    return from - 1;
  }
}
