/**
 * How many entries and bytes of each direction the log has over a span of time. A short span is counted; of a long one some blocks are
 * read, and each stands for its neighbours: the index by time tells how many entries these are.
 */
import { columnsIn, givenTime, type StoredBlock } from '../../../shared/base/log-block.ts';
import { fromHalves, TX } from '../entry.ts';
import { correct } from '../segments.ts';
import { boundsOf, type IdRange, TimeRangeTable } from '../store/tables.ts';
import { StoreReader } from './store-reader.ts';

export interface HistogramQuery {
  /** undefined: from the first entry, to the last. */
  readonly sinceMs: number | undefined;
  /** Not included. */
  readonly untilMs: number | undefined;
  readonly buckets: number;
  readonly upTo: number;
}

/** Numbers of a bucket, by direction. */
export interface Bucket {
  txEntries: number;
  rxEntries: number;
  txBytes: number;
  rxBytes: number;
}

export interface Histogram {
  readonly sinceMs: number;
  readonly untilMs: number;
  readonly buckets: readonly Bucket[];
  /** Not every entry was read. */
  readonly isEstimate: boolean;
}

/** Blocks that are read for one answer: a quarter of a second, and 24 h of a line that commits every half minute. */
const maxBlocks = 3_000;
/** Of a row of the index (tables.ts), at most. */
const blocksOfRow = 64;
/** Rows of the index read in one transaction (about 2 ms), and rows whose blocks are. */
const rowsAtOnce = 2_000;
const bytesAtOnce = 1024 * 1024;

interface Sample {
  readonly range: IdRange;
  /** Rows of the index that it stands for. */
  readonly weight: number;
}

export class HistogramJob {
  readonly #store: StoreReader;
  readonly #query: HistogramQuery;
  readonly #sinceMs: number;
  readonly #untilMs: number;
  readonly #buckets: Bucket[];
  #rows: IdRange[] | undefined = [];
  #readTo = 0;
  #samples: Sample[] = [];
  #blocksOfSample = blocksOfRow;
  #isEstimate = false;

  constructor(dir: string, logId: string, query: HistogramQuery) {
    this.#store = new StoreReader(dir, logId);
    this.#query = query;
    this.#buckets = Array.from({ length: query.buckets }, () => ({
      txEntries: 0,
      rxEntries: 0,
      txBytes: 0,
      rxBytes: 0,
    }));
    this.#sinceMs = query.sinceMs ?? this.#timeOf('min');
    this.#untilMs = Math.max(this.#sinceMs + query.buckets, query.untilMs ?? this.#timeOf('max') + 1);
  }

  /** undefined: there is more to do. */
  step(): Histogram | undefined {
    if (this.#rows !== undefined) {
      this.#readRows(this.#rows);
      return undefined;
    }
    const samples = this.#takeSamples();
    if (samples.length > 0) {
      this.#count(samples);
      return undefined;
    }
    const { round } = Math;
    const buckets = this.#buckets.map((one) => ({
      txEntries: round(one.txEntries),
      rxEntries: round(one.rxEntries),
      txBytes: round(one.txBytes),
      rxBytes: round(one.rxBytes),
    }));
    return { sinceMs: this.#sinceMs, untilMs: this.#untilMs, buckets, isEstimate: this.#isEstimate };
  }

  /** Of the first or the last block's entries; 0: there are none. */
  #timeOf(which: 'min' | 'max'): number {
    const { segments } = this.#store;
    const block = this.#store.read((sql) =>
      sql<[number], StoredBlock>(
        `SELECT first_id AS first, entries, codec, body, bits AS given FROM blocks LEFT JOIN given_times USING (first_id)
         WHERE first_id = (SELECT ${which}(first_id) FROM blocks WHERE first_id <= ?)`,
      ).get(this.#query.upTo),
    );
    if (block === undefined) return 0;
    const times = entriesOf(block).map(({ id, stampedMs, isGiven }) =>
      isGiven ? stampedMs : Number(correct(stampedMs, segments.markAt(id).correctionMs)),
    );
    return times.reduce((one, other) => Math[which](one, other));
  }

  #readRows(rows: IdRange[]): void {
    const { upTo } = this.#query;
    const { segments } = this.#store;
    const bounds = boundsOf(this.#sinceMs, this.#untilMs - 1);
    this.#store.read((sql) => {
      const times = new TimeRangeTable(sql);
      const end = Math.min(upTo, times.lastId);
      let left = rowsAtOnce;
      for (const { from, to, correctionMs } of end > this.#readTo ? segments.stretches(this.#readTo + 1, end) : []) {
        const found = times.within(from, to, bounds, correctionMs, left);
        // A row of two stretches comes with each.
        rows.push(...found.filter(({ lastId }) => lastId > (rows.at(-1)?.lastId ?? 0)));
        this.#readTo = found.length === left ? (found.at(-1)?.lastId ?? to) : to;
        left -= found.length;
        if (left <= 0) return;
      }
      this.#rows = undefined;
      this.#choose(rows, { firstId: end + 1, lastId: upTo });
    });
  }

  /** `rest`: the newest entries, which the index does not have yet. */
  #choose(rows: readonly IdRange[], rest: IdRange): void {
    const stride = Math.max(1, Math.ceil(rows.length / maxBlocks));
    this.#blocksOfSample = Math.min(
      blocksOfRow,
      Math.max(1, Math.floor((stride * maxBlocks) / Math.max(1, rows.length))),
    );
    this.#isEstimate = stride > 1;
    for (let i = 0; i < rows.length; i += stride) {
      const range = rows[i + Math.floor(Math.min(stride, rows.length - i) / 2)];
      if (range !== undefined) this.#samples.push({ range, weight: Math.min(stride, rows.length - i) });
    }
    if (rest.lastId >= rest.firstId) this.#samples.push({ range: rest, weight: 1 });
  }

  /** As many as one transaction reads. */
  #takeSamples(): Sample[] {
    return this.#samples.splice(0, Math.max(1, Math.floor(128 / this.#blocksOfSample)));
  }

  #count(samples: readonly Sample[]): void {
    const read = this.#store.read((sql) =>
      samples.map(({ range, weight }) => {
        const blocks: StoredBlock[] = [];
        let bytes = 0;
        const all = sql<[number, number, number], StoredBlock>(
          `SELECT first_id AS first, entries, codec, body, bits AS given FROM blocks LEFT JOIN given_times USING (first_id)
           WHERE first_id >= ? AND first_id <= ? ORDER BY first_id LIMIT ?`,
        );
        for (const block of all.iterate(range.firstId, range.lastId, this.#blocksOfSample)) {
          blocks.push(block);
          bytes += block.body.length;
          if (bytes >= bytesAtOnce) break;
        }
        return { blocks, range, weight };
      }),
    );
    for (const { blocks, range, weight } of read) {
      const last = blocks.at(-1);
      const isWhole = last === undefined || last.first + last.entries > range.lastId;
      const entries = blocks.reduce((sum, block) => sum + block.entries, 0);
      const scale = isWhole && weight === 1 ? 1 : (weight * (range.lastId - range.firstId + 1)) / entries;
      this.#isEstimate ||= !isWhole;
      for (const block of blocks) this.#add(block, scale);
    }
  }

  #add(block: StoredBlock, scale: number): void {
    const { segments } = this.#store;
    const width = (this.#untilMs - this.#sinceMs) / this.#buckets.length;
    for (const { id, isTx, stampedMs, isGiven, bytes } of entriesOf(block)) {
      const timeMs = isGiven ? stampedMs : Number(correct(stampedMs, segments.markAt(id).correctionMs));
      const bucket = id > this.#query.upTo ? undefined : this.#buckets[Math.floor((timeMs - this.#sinceMs) / width)];
      if (bucket === undefined) continue;
      bucket[isTx ? 'txEntries' : 'rxEntries'] += scale;
      bucket[isTx ? 'txBytes' : 'rxBytes'] += scale * bytes;
    }
  }
}

function entriesOf(block: StoredBlock) {
  const { columns } = columnsIn(block);
  return Array.from(columns.dirs, (dir, i) => ({
    id: block.first + i,
    isTx: (dir & ~givenTime) === TX,
    isGiven: (dir & givenTime) !== 0,
    stampedMs: Number(fromHalves(columns.highs[i] ?? 0, columns.lows[i] ?? 0)),
    bytes: columns.dataLengths[i] ?? 0,
  }));
}
