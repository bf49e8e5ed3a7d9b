/** Batches: blocks (shared/base/log-block.ts) one after the other in one buffer (one transfer between the threads). Pure. */
import {
  type Batch,
  type BlockIndex,
  type Columns,
  columnBytes,
  columnsOf,
  givenTime,
} from '../../shared/base/log-block.ts';
import { type Direction, fromHalves, highOf, type LogEntry, lowOf, RX, TX, type Uint64 } from './entry.ts';
import { correct, type Mark, marked } from './segments.ts';

/** Limits of a block: a reader that wants one entry loads a whole block; a larger entry is a block of its own. */
export const maxBlockEntries = 1_000;
export const maxBlockBytes = 64 * 1024;

export function aligned(length: number): number {
  return (length + 3) & ~3;
}

export function pack(entries: readonly LogEntry[]): Batch {
  const blocks = divide(entries);
  const last = blocks.at(-1);
  const buffer = new ArrayBuffer(last === undefined ? 0 : last.offset + aligned(last.length));
  let from = 0;
  for (const block of blocks) {
    fill(columnsOf(buffer, block), entries, from);
    from += block.count;
  }
  return { blocks, buffer };
}

function divide(entries: readonly LogEntry[]): BlockIndex[] {
  const blocks: BlockIndex[] = [];
  let open = { firstId: 0, count: 0, offset: 0, length: 0 };
  for (const entry of entries) {
    const bytes = columnBytes + entry.data.length + Buffer.byteLength(entry.note);
    const full = open.count === maxBlockEntries || open.length + bytes > maxBlockBytes;
    if (open.count > 0 && (full || open.firstId + open.count !== entry.id)) {
      blocks.push(open);
      open = { firstId: 0, count: 0, offset: open.offset + aligned(open.length), length: 0 };
    }
    if (open.count === 0) open.firstId = entry.id;
    open.count++;
    open.length += bytes;
  }
  if (open.count > 0) blocks.push(open);
  return blocks;
}

function fill(columns: Columns, entries: readonly LogEntry[], from: number): void {
  let offset = 0;
  for (let i = 0; i < columns.dirs.length; i++) {
    const entry = entries[from + i];
    if (entry === undefined) return;
    columns.highs[i] = highOf(entry.timestampMs);
    columns.lows[i] = lowOf(entry.timestampMs);
    columns.dirs[i] = entry.timeGiven === true ? entry.dir | givenTime : entry.dir;
    columns.dataLengths[i] = entry.data.length;
    columns.bytes.set(entry.data, offset);
    offset += entry.data.length;
    const noteLength = entry.note === '' ? 0 : columns.bytes.write(entry.note, offset);
    columns.noteLengths[i] = noteLength;
    offset += noteLength;
  }
}

/** Which entries of a batch to unpack. */
interface Wanted {
  /** Those with a greater id. */
  readonly after: number;
  readonly upTo: number;
  /** At most so many; undefined: all. */
  readonly maxEntries?: number;
  /** No more after so many bytes of data; undefined: all. */
  readonly maxBytes?: number;
}

/**
 * Entries as they were stamped, or with the marks that `markAt` gives their stamps. Their data are views of the batch: fit to be
 * passed on, not kept.
 */
export function unpack(batch: Batch, wanted: Wanted, markAt?: (id: number) => Mark): LogEntry[] {
  const entries: LogEntry[] = [];
  for (const block of batch.blocks) if (!unpackBlock(batch.buffer, block, wanted, entries)) break;
  return markAt === undefined ? entries : entries.map((entry) => marked(entry, markAt(entry.id)));
}

/** False when a limit was reached. */
function unpackBlock(buffer: ArrayBuffer, block: BlockIndex, wanted: Wanted, into: LogEntry[]): boolean {
  const { after, upTo, maxEntries = Number.POSITIVE_INFINITY, maxBytes = Number.POSITIVE_INFINITY } = wanted;
  if (block.firstId + block.count <= after) return true;
  const { highs, lows, dataLengths, noteLengths, dirs, bytes } = columnsOf(buffer, block);
  let offset = 0;
  let taken = into.reduce((sum, { data }) => sum + data.length, 0);
  for (let i = 0; i < block.count; i++) {
    const dataEnd = offset + (dataLengths[i] ?? 0);
    const noteEnd = dataEnd + (noteLengths[i] ?? 0);
    const id = block.firstId + i;
    if (id > upTo || into.length >= maxEntries || taken >= maxBytes) return false;
    if (id > after) {
      taken += dataEnd - offset;
      into.push({
        id,
        dir: directionOf(dirs[i]),
        timestampMs: fromHalves(highs[i] ?? 0, lows[i] ?? 0),
        data: bytes.subarray(offset, dataEnd),
        note: noteEnd === dataEnd ? '' : bytes.toString('utf8', dataEnd, noteEnd),
        ...(((dirs[i] ?? 0) & givenTime) !== 0 && { timeGiven: true }),
      });
    }
    offset = noteEnd;
  }
  return true;
}

function directionOf(value: number | undefined): Direction {
  return ((value ?? RX) & ~givenTime) === TX ? TX : RX;
}

/** 0 for an empty one. */
export function lastIdOf({ blocks }: Batch): number {
  const last = blocks.at(-1);
  return last === undefined ? 0 : last.firstId + last.count - 1;
}

/** Which entries a reader wants: the same rule for stored blocks (in the worker) and live entries. */
export interface Filter {
  readonly dir?: Direction | undefined;
  readonly sinceMs?: Uint64 | undefined;
  /** Not included. */
  readonly untilMs?: Uint64 | undefined;
}

export function filtersAnything({ dir, sinceMs, untilMs }: Filter): boolean {
  return dir !== undefined || sinceMs !== undefined || untilMs !== undefined;
}

export function matcher({ dir: wanted, sinceMs, untilMs }: Filter) {
  return ({ dir, timestampMs }: Pick<LogEntry, 'dir' | 'timestampMs'>): boolean =>
    (wanted === undefined || wanted === dir) &&
    (sinceMs === undefined || timestampMs >= sinceMs) &&
    (untilMs === undefined || timestampMs < untilMs);
}

/** Whether an entry of a block is wanted; `correctionAt(i)`: what is to be added to the stamp of the i-th entry. */
export function anyMatches(columns: Columns, filter: Filter, correctionAt: (i: number) => number): boolean {
  const matches = matcher(filter);
  return columns.dirs.some((dir, i) => {
    const stampedMs = fromHalves(columns.highs[i] ?? 0, columns.lows[i] ?? 0);
    const isGiven = (dir & givenTime) !== 0;
    return matches({
      dir: (dir & ~givenTime) === 0 ? 0 : 1,
      timestampMs: isGiven ? stampedMs : correct(stampedMs, correctionAt(i)),
    });
  });
}
