/** The SQL of the blocks of entries, and how the body of a block lies in the file. */
import { deflateRawSync } from 'node:zlib';
import {
  type Batch,
  type BlockIndex,
  type Columns,
  columnsIn,
  columnsOf,
  deflated,
  givenTime,
  plain,
  type StoredBlock,
} from '../../../shared/base/log-block.ts';
import type { Sql } from '../../../shared/storage/open.ts';
import { aligned, anyMatches, type Filter, filtersAnything } from '../packed.ts';
import type { Segments } from '../segments.ts';
import { boundsOf, rangeBytes, TimeRange, TimeRangeTable } from './tables.ts';

/** A page of stored entries for a reader: what 100 readers hold at once must stay small. */
const pageBytes = 32 * 1024;
const pageEntries = 2_000;
/** Blocks checked in one call, so that a filter that matches nothing never holds the worker long (about 5 ms). */
const scanBlocks = 500;
const scanBytes = 2 * 1024 * 1024;
/** One step of retention: below 5 ms also with a body on 130 pages each. */
const pruneBlocks = 64;
export const pruneBytes = 512 * 1024;
/** One entry each, these are as large in the file as 2 MiB: what a full batch may push out. */
const pushedOutBlocks = 32_768;

interface PruneRow {
  first: number;
  entries: number;
  ran: number;
  bytes: number;
}

export interface Removal {
  readonly lastId: number;
  readonly entries: number;
  readonly full: boolean;
}

export class BlockTable {
  readonly #sql: Sql;
  readonly #times: TimeRangeTable;
  readonly #segments: Segments;
  /** What the index does not have yet: entries after `#indexedTo`, of which the open range holds those up to its last. */
  #indexedTo = 0;
  #open = new TimeRange();
  /** There are stored entries that the open range does not hold. */
  #isBehind = true;

  /** `segments`: what readers have added to the stamp of an entry. */
  constructor(sql: Sql, segments: Segments) {
    this.#sql = sql;
    this.#times = new TimeRangeTable(sql);
    this.#segments = segments;
  }

  get firstId(): number {
    return this.#sql<[], number | null>('SELECT min(first_id) FROM blocks').pluck().get() ?? 0;
  }

  get lastId(): number {
    return this.#ofLast('first_id + entries - 1');
  }

  /** Seconds that the service had run when the newest block was stored. */
  get lastRanS(): number {
    return this.#ofLast('ran_s');
  }

  #ofLast(value: string): number {
    const last = this.#sql<[], number>(`SELECT ${value} FROM blocks ORDER BY first_id DESC LIMIT 1`);
    return last.pluck().get() ?? 0;
  }

  /** The blocks that begin with the ids `first` to `upTo`. */
  #from(first: number, upTo: number): IterableIterator<StoredBlock> {
    return this.#sql<[number, number], StoredBlock>(
      `SELECT first_id AS first, entries, codec, body, bits AS given FROM blocks LEFT JOIN given_times USING (first_id)
       WHERE first_id >= ? AND first_id <= ? ORDER BY first_id`,
    ).iterate(first, upTo);
  }

  add({ blocks, buffer }: Batch, ranS: number, compress: boolean): void {
    const insert = this.#sql<[number, number, number, number, Uint8Array]>('INSERT INTO blocks VALUES (?, ?, ?, ?, ?)');
    const putGiven = this.#sql<[number, Uint8Array]>('INSERT OR REPLACE INTO given_times VALUES (?, ?)');
    for (const block of blocks) {
      const { firstId, count, offset, length } = block;
      const columns = columnsOf(buffer, block);
      if (!this.#isBehind) this.#note(firstId, columns);
      const given = takeGivenBits(columns.dirs);
      if (given !== undefined) putGiven.run(firstId, given);
      const { codec, body } = encodeBody(Buffer.from(buffer, offset, length), compress);
      insert.run(firstId, count, ranS, codec, body);
    }
  }

  /** After a transaction that was rolled back: the rows that it wrote are gone, and reads do without the index until index() has run. */
  forgetIndexed(): void {
    this.#isBehind = true;
    this.#indexedTo = 0;
  }

  /** Takes stored blocks into the index by time, a bounded number in a transaction; false: it is up to date. */
  index(): boolean {
    if (!this.#isBehind) return false;
    this.#indexedTo = this.#times.lastId;
    this.#open = new TimeRange();
    const full: TimeRange[] = [];
    let looked = 0;
    let lookedBytes = 0;
    this.#isBehind = false;
    for (const row of this.#from(this.#indexedTo + 1, Number.MAX_SAFE_INTEGER)) {
      // The last range that is not full is read again by the next step.
      this.#isBehind = looked >= scanBlocks || lookedBytes >= scanBytes + rangeBytes;
      if (this.#isBehind) break;
      const { body, columns } = columnsIn(row);
      this.#open.add(row.first, columns);
      looked++;
      lookedBytes += body.byteLength;
      if (this.#open.isFull) {
        full.push(this.#open);
        this.#open = new TimeRange();
      }
    }
    for (const range of full) this.#store(range);
    return this.#isBehind;
  }

  #note(firstId: number, columns: Columns): void {
    this.#open.add(firstId, columns);
    if (!this.#open.isFull) return;
    this.#store(this.#open);
    this.#open = new TimeRange();
  }

  #store(range: TimeRange): void {
    this.#times.put(range);
    this.#indexedTo = range.lastId;
  }

  /** The id after which the first entry of a time may lie. */
  #skip(after: number, upTo: number, { sinceMs, untilMs }: Filter): number {
    if (sinceMs === undefined && untilMs === undefined) return after;
    const end = Math.min(upTo, this.#indexedTo);
    if (end <= after) return after;
    const bounds = boundsOf(sinceMs, untilMs);
    for (const { from, to, correctionMs } of this.#segments.stretches(after + 1, end)) {
      const found = this.#times.first(from, to, bounds, correctionMs);
      if (found !== undefined) return found - 1;
    }
    return end;
  }

  /**
   * `mostBytes`: reads up to the first block with a larger body; nothing, if that is the first (isTooLarge). `lastId`: the last
   * that was checked; undefined when there was nothing more.
   */
  read(from: number, upTo: number, filter: Filter, mostBytes: number | undefined, asStored = false) {
    const after = this.#skip(from, upTo, filter);
    const holding = this.#sql<[number], number | null>('SELECT max(first_id) FROM blocks WHERE first_id <= ?');
    const first = holding.pluck().get(after + 1) ?? 0;
    const larger = mostBytes === undefined ? undefined : this.#firstLarger(first, upTo, mostBytes);
    if (larger === undefined) return this.#scan(first, after, upTo, filter, asStored);
    if (larger <= after + 1) return { batch: new PageBuilder(() => 0).join(), lastId: after, isTooLarge: true };
    const scan = this.#scan(first, after, larger - 1, filter, asStored);
    return { ...scan, lastId: scan.lastId ?? larger - 1 };
  }

  /** The first block with a body of more bytes among those that one call checks. */
  #firstLarger(first: number, upTo: number, bytes: number): number | undefined {
    // The length of a body is in its row; the pages of the body are not read.
    const larger = this.#sql<[number, number, number, number], number>(
      `SELECT first_id FROM (SELECT first_id, length(body) AS bytes FROM blocks WHERE first_id >= ? AND first_id <= ?
         ORDER BY first_id LIMIT ?) WHERE bytes > ? LIMIT 1`,
    );
    return larger.pluck().get(first, upTo, scanBlocks + 1, bytes);
  }

  #scan(first: number, after: number, upTo: number, filter: Filter, asStored: boolean) {
    const wanted = filtersAnything(filter) ? filter : undefined;
    const page = new PageBuilder((id) => this.#segments.markAt(id).correctionMs);
    let lastId: number | undefined;
    let looked = 0;
    let lookedBytes = 0;
    for (const row of this.#from(first, upTo)) {
      const end = row.first + row.entries - 1;
      if (end <= after) continue;
      lookedBytes += asStored ? page.add(row, row.body, row) : page.offer(row, wanted);
      lastId = end;
      looked++;
      if (page.full || looked >= scanBlocks || lookedBytes >= scanBytes)
        return { batch: page.join(), lastId, isTooLarge: false };
    }
    return { batch: page.join(), lastId: undefined, isTooLarge: false };
  }

  /** The id after which the last `wanted` entries up to `upTo` begin. */
  startOfLast(wanted: number, upTo: number): number {
    let missing = wanted;
    const backwards = this.#sql<[number], { first: number; entries: number }>(
      'SELECT first_id AS first, entries FROM blocks WHERE first_id <= ? ORDER BY first_id DESC',
    );
    for (const { first, entries } of backwards.iterate(upTo)) {
      const last = Math.min(first + entries - 1, upTo);
      const here = last - first + 1;
      if (here >= missing) return last - missing;
      missing -= here;
    }
    return 0;
  }

  /** Removes the oldest blocks that make room for a batch, and no more of them than that takes. */
  makeRoom(bytes: number): Removal {
    return this.#remove(bytes, 0, pushedOutBlocks, bytes);
  }

  /** Removes the oldest blocks: at least `bytes` of them, and all that were stored before `ranS`; a bounded step. */
  removeOldest(bytes: number, ranS: number): Removal {
    return this.#remove(bytes, ranS, pruneBlocks, pruneBytes);
  }

  #remove(bytes: number, ranS: number, mostBlocks: number, mostBytes: number): Removal {
    let removedBytes = 0;
    let entries = 0;
    let last: PruneRow | undefined;
    let full = false;
    const oldest = this.#sql<[number], PruneRow>(
      'SELECT first_id AS first, entries, ran_s AS ran, length(body) AS bytes FROM blocks ORDER BY first_id LIMIT ?',
    );
    for (const row of oldest.iterate(mostBlocks)) {
      if (removedBytes >= bytes && row.ran >= ranS) break;
      if (full) break;
      last = row;
      entries += row.entries;
      removedBytes += row.bytes;
      full = removedBytes >= mostBytes;
    }
    if (last === undefined) return { lastId: 0, entries: 0, full: false };
    for (const table of ['blocks', 'given_times'])
      this.#sql<[number]>(`DELETE FROM ${table} WHERE first_id <= ?`).run(last.first);
    this.#times.dropBefore(last.first + last.entries);
    return { lastId: last.first + last.entries - 1, entries, full: true };
  }
}

/** Gathers blocks, then joins them into one buffer. */
class PageBuilder {
  readonly #bodies: Uint8Array[] = [];
  readonly #blocks: BlockIndex[] = [];
  readonly #correctionAt: (id: number) => number;
  #length = 0;
  #entries = 0;

  constructor(correctionAt: (id: number) => number) {
    this.#correctionAt = correctionAt;
  }

  get full(): boolean {
    return this.#length >= pageBytes || this.#entries >= pageEntries;
  }

  /** Returns the bytes of the unpacked block, which is added if it holds something that is wanted. */
  offer(row: StoredBlock, filter: Filter | undefined): number {
    const { body, columns } = columnsIn(row);
    const isWanted = filter === undefined || anyMatches(columns, filter, (i) => this.#correctionAt(row.first + i));
    return isWanted ? this.add(row, new Uint8Array(body)) : body.byteLength;
  }

  /** `stored`: how, if the body is as it lies in the file. */
  add(row: StoredBlock, body: Uint8Array, stored?: StoredBlock): number {
    const { length } = body;
    const how = stored && { stored: { codec: stored.codec, given: stored.given } };
    this.#blocks.push({ firstId: row.first, count: row.entries, offset: this.#length, length, ...how });
    this.#bodies.push(body);
    this.#length += aligned(length);
    this.#entries += row.entries;
    return length;
  }

  join(): Batch {
    const buffer = new ArrayBuffer(this.#length);
    const bytes = Buffer.from(buffer);
    for (const [i, body] of this.#bodies.entries()) bytes.set(body, this.#blocks[i]?.offset ?? 0);
    return { blocks: this.#blocks, buffer };
  }
}

/** Smaller bodies fit beside others on a page: nothing to save. */
const worthwhileBytes = 256;
/** Keeps what is compressed only when it saves a tenth. */
const worthwhileRatio = 0.9;
function encodeBody(body: Uint8Array, compress: boolean): { codec: number; body: Uint8Array } {
  if (!compress || body.length < worthwhileBytes) return { codec: plain, body };
  const smaller = deflateRawSync(body, { level: 1 });
  return smaller.length <= body.length * worthwhileRatio ? { codec: deflated, body: smaller } : { codec: plain, body };
}

/** The mark of given times leaves the block and becomes a row of its own: a bit an entry; undefined where there is none. */
function takeGivenBits(dirs: Uint8Array): Uint8Array | undefined {
  let bits: Uint8Array | undefined;
  for (const [i, dir] of dirs.entries()) {
    if ((dir & givenTime) === 0) continue;
    bits ??= new Uint8Array(Math.ceil(dirs.length / 8));
    bits[i >> 3] = (bits[i >> 3] ?? 0) | (1 << (i & 7));
    dirs[i] = dir & ~givenTime;
  }
  return bits;
}
