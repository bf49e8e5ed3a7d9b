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
/** Entries between the first and the last of a match that is found wherever a search begins or ends. */
export const reachEntries = 5_000;
/** A search reads so far before its first entry, as a match may begin there, but no more bytes than it searches in a tenth of a second. */
const lookBackBytes = 16 * 1024 * 1024;

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
export interface QueuedBlock extends Omit<StoredBlock, 'body'> {
  readonly bodies: Buffer;
  readonly from: number;
  readonly to: number;
}

/**
 * Blocks that wait to be searched. Their bodies lie in one buffer: as objects of their own they lived long enough to be copied by the
 * garbage collector, which took a third of the processor time of a search of small blocks.
 */
export class BlockQueue {
  #bodies = Buffer.allocUnsafe(256 * 1024);
  #bytes = 0;
  /** Of each block: first id, entries, codec, and where its body ends. */
  readonly #rows: number[] = [];
  readonly #given = new Map<number, Uint8Array>();
  #next = 0;
  #from = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /** Those that were taken count, too. */
  get count(): number {
    return this.#rows.length / rowNumbers;
  }

  get isEmpty(): boolean {
    return this.#next === this.#rows.length;
  }

  add({ first, entries, codec, body, given }: StoredBlock): void {
    const end = this.#bytes + body.length;
    if (end > this.#bodies.length) this.#grow(end);
    this.#bodies.set(body, this.#bytes);
    this.#bytes = end;
    this.#rows.push(first, entries, codec, end);
    if (given !== null && given.length > 0) this.#given.set(first, given);
  }

  /** undefined: it is empty. */
  take(): QueuedBlock | undefined {
    if (this.isEmpty) return undefined;
    const [rows, at, from] = [this.#rows, this.#next, this.#from];
    const first = rows[at] ?? 0;
    const to = rows[at + 3] ?? 0;
    this.#next = at + rowNumbers;
    this.#from = to;
    const given = this.#given.size === 0 ? null : (this.#given.get(first) ?? null);
    return { first, entries: rows[at + 1] ?? 0, codec: rows[at + 2] ?? 0, bodies: this.#bodies, from, to, given };
  }

  #grow(needed: number): void {
    const larger = Buffer.allocUnsafe(Math.max(needed, 2 * this.#bodies.length));
    this.#bodies.copy(larger, 0, 0, this.#bytes);
    this.#bodies = larger;
  }
}

const rowNumbers = 4;

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
  const first = holding.pluck().get(after + 1) ?? 0;
  const rows = sql<[number, number], StoredBlock>(
    `SELECT first_id AS first, entries, codec, body, bits AS given FROM blocks LEFT JOIN given_times USING (first_id)
     WHERE first_id >= ? AND first_id <= ? ORDER BY first_id`,
  );
  const blocks = new BlockQueue();
  for (const row of rows.iterate(first, upTo)) {
    if (row.first + row.entries - 1 <= after) continue;
    blocks.add(row);
    const isFull = blocks.bytes >= maxReadBytes || blocks.count >= maxRows;
    if (isFull || systemClock.monoMs() - startMs >= maxReadMs) return { blocks, isLast: false };
  }
  return { blocks, isLast: true };
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
