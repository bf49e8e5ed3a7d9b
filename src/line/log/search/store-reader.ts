/**
 * Reads blocks of log.db beside the log worker that writes it. A reader keeps SQLite's write-ahead log from being begun again, so
 * each connection reads once, in one short transaction, and is closed before its bytes are searched.
 */
import { join } from 'node:path';
import { systemClock } from '../../../shared/base/clock.ts';
import type { StoredBlock } from '../../../shared/base/log-block.ts';
import { type Connection, openReadOnly, type Sql, statementsOf } from '../../../shared/storage/open.ts';
import type { Filter } from '../packed.ts';
import type { Segments } from '../segments.ts';
import { logFileName } from '../store/schema.ts';
import { boundsOf, MetaTable, SegmentTable, TimeRangeTable } from '../store/tables.ts';

/** The file holds another log than the one that was to be read. */
const LOG_REPLACED = 'LOG_REPLACED';

class ReplacedError extends Error {
  readonly code = LOG_REPLACED;
}

/** Of one transaction: a time, bytes as they are in the file, and rows. */
const maxReadMs = 15;
const maxReadBytes = 2 * 1024 * 1024;
const maxRows = 4_000;
/**
 * Blocks that SQLite joins in one row: as rows of their own, with an object and an array of bytes for each, they cost twice as much as
 * to search them, most of it garbage. At most 2 MiB, as a block has at most 64 KiB (packed.ts).
 */
const rowsAtOnce = 32;
/** Entries between the first and the last of a match that is found wherever a search begins or ends. */
export const reachEntries = 5_000;
/** A search reads so far before its first entry, as a match may begin there, but no more bytes than it searches in a tenth of a second. */
const lookBackBytes = 16 * 1024 * 1024;

const noMarks: Uint8Array = new Uint8Array();

/** Where a read begins and what it is for. */
interface Wanted extends Filter {
  readonly after: number;
  readonly upTo: number;
}

export interface ReadBlocks {
  readonly blocks: BlockQueue;
  /** What lies before the first block is not of this time. */
  readonly isSkipped: boolean;
  /** Nothing more is stored up to `upTo`. */
  readonly isLast: boolean;
}

/** A block whose body lies in the bodies of the queue. */
export interface QueuedBlock extends Readonly<Omit<StoredBlock, 'body'>> {
  readonly bodies: Buffer;
  readonly from: number;
  readonly to: number;
}

/** Of each block, one after the other: first id, entries, codec, bytes of its body, and in hex the marks of given times. */
type Rows = readonly (number | string)[];
const [firstColumn, entriesColumn, codecColumn, bytesColumn, givenColumn, columns] = [0, 1, 2, 3, 4, 5] as const;

/**
 * Blocks that wait to be searched. A slow line leaves a block for each entry, and the threads of V8 that collect garbage take the
 * processor from the line: so nothing here, nor where a block is unpacked and searched, is made for each block.
 */
export class BlockQueue {
  readonly #reads: { readonly bodies: Buffer; readonly rows: Rows }[] = [];
  readonly #taken = {
    first: 0,
    entries: 0,
    codec: 0,
    bodies: Buffer.alloc(0) as Buffer,
    from: 0,
    to: 0,
    given: noMarks,
  };
  #bytes = 0;
  #count = 0;
  /** In the rows and in the bodies of the first read. */
  #nextRow = 0;
  #nextByte = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /** Those that were taken count, too. */
  get count(): number {
    return this.#count;
  }

  get isEmpty(): boolean {
    return this.#reads.length === 0;
  }

  add(bodies: Buffer, rows: Rows): void {
    this.#reads.push({ bodies, rows });
    this.#bytes += bodies.length;
    this.#count += rows.length / columns;
  }

  /** Until the next one is taken. undefined: the queue is empty. */
  take(): QueuedBlock | undefined {
    const [read] = this.#reads;
    if (read === undefined) return undefined;
    const { bodies, rows } = read;
    const given = rows[this.#nextRow + givenColumn];
    const taken = this.#taken;
    taken.first = Number(rows[this.#nextRow + firstColumn]);
    taken.entries = Number(rows[this.#nextRow + entriesColumn]);
    taken.codec = Number(rows[this.#nextRow + codecColumn]);
    taken.bodies = bodies;
    taken.from = this.#nextByte;
    taken.to = this.#nextByte + Number(rows[this.#nextRow + bytesColumn]);
    taken.given = given === '' ? noMarks : Buffer.from(String(given), 'hex');
    this.#nextRow += columns;
    this.#nextByte = taken.to;
    if (this.#nextRow >= rows.length) {
      this.#reads.shift();
      this.#nextRow = 0;
      this.#nextByte = 0;
    }
    return taken;
  }
}

export class StoreReader {
  readonly #path: string;
  readonly #logId: string;
  #segments: Segments | undefined;

  constructor(dir: string, logId: string) {
    this.#path = join(dir, logFileName);
    this.#logId = logId;
  }

  /** Of the time when the first read was made. */
  get segments(): Segments {
    this.#segments ??= this.read((sql) => new SegmentTable(sql).segments);
    return this.#segments;
  }

  /** Throws LOG_REPLACED. */
  read<T>(work: (sql: Sql) => T): T {
    const connection = openReadOnly(this.#path);
    try {
      return this.#inTransaction(connection, work);
    } finally {
      connection.close();
    }
  }

  #inTransaction<T>(connection: Connection, work: (sql: Sql) => T): T {
    const sql = statementsOf(connection);
    return connection.transaction(() => {
      const { logId } = new MetaTable(sql);
      if (logId !== this.#logId) throw new ReplacedError(`the log was replaced: this is log ${logId}`);
      return work(sql);
    })();
  }

  /** The id before which a search from `after` on begins to read. */
  lookBack(after: number): number {
    let from = after;
    let bytes = 0;
    const read = (sql: Sql): boolean => {
      const startMs = systemClock.monoMs();
      const before = sql<[number], { first: number; bytes: number }>(
        'SELECT first_id AS first, length(body) AS bytes FROM blocks WHERE first_id <= ? ORDER BY first_id DESC',
      );
      for (const row of before.iterate(from)) {
        from = row.first - 1;
        bytes += row.bytes;
        if (after - from >= reachEntries || bytes >= lookBackBytes) return true;
        if (systemClock.monoMs() - startMs >= maxReadMs) return false;
      }
      return true;
    };
    while (!this.read(read));
    return from;
  }

  /** The next blocks with entries after `after`; at least one, if there is one. */
  blocks(wanted: Wanted): ReadBlocks {
    const { segments } = this;
    return this.read((sql) => {
      const after = firstOfTime(sql, segments, wanted) - 1;
      return { ...readBlocks(sql, after, wanted.upTo), isSkipped: after > wanted.after };
    });
  }
}

function readBlocks(sql: Sql, after: number, upTo: number): Omit<ReadBlocks, 'isSkipped'> {
  const startMs = systemClock.monoMs();
  const holding = sql<[number], number | null>('SELECT max(first_id) FROM blocks WHERE first_id <= ?');
  let from = holding.pluck().get(after + 1) ?? 0;
  // Text of SQLite is bytes with a length: neither zero bytes nor what is no UTF-8 changes them on the way.
  const read = sql<[number, number, number, number], { bodies: Buffer; rows: string | null }>(
    `SELECT CAST(group_concat(CAST(body AS TEXT), '' ORDER BY first_id) AS BLOB) AS bodies,
       '[' || group_concat(format('%d,%d,%d,%d,"%s"', first_id, entries, codec, length(body), hex(bits)), ',' ORDER BY first_id) || ']' AS rows
     FROM (SELECT * FROM blocks LEFT JOIN given_times USING (first_id)
           WHERE first_id >= ? AND first_id <= ? AND first_id + entries > ? ORDER BY first_id LIMIT ?)`,
  );
  const blocks = new BlockQueue();
  for (;;) {
    const found = read.get(from, upTo, after + 1, rowsAtOnce);
    const rows = JSON.parse(found?.rows ?? '[]') as Rows;
    if (found !== undefined && rows.length > 0) blocks.add(found.bodies, rows);
    if (rows.length < columns * rowsAtOnce) return { blocks, isLast: true };
    from = Number(rows.at(-columns)) + 1;
    const isFull = blocks.bytes >= maxReadBytes || blocks.count >= maxRows;
    if (isFull || systemClock.monoMs() - startMs >= maxReadMs) return { blocks, isLast: false };
  }
}

/** The first id after `after` where an entry of the time may lie: as BlockTable does it for readers. */
function firstOfTime(sql: Sql, segments: Segments, { after, upTo, sinceMs, untilMs }: Wanted): number {
  if (sinceMs === undefined && untilMs === undefined) return after + 1;
  const times = new TimeRangeTable(sql);
  const end = Math.min(upTo, times.lastId);
  if (end <= after) return after + 1;
  for (const { from, to, correctionMs } of segments.stretches(after + 1, end)) {
    const found = times.first(from, to, boundsOf(sinceMs, untilMs), correctionMs);
    if (found !== undefined) return found;
  }
  return end + 1;
}
