/**
 * The text of the log as lines, as a terminal shows it. Each direction has lines of its own: text that is interrupted by the
 * other direction continues its line, which stands where its first byte is. CR, LF and CR LF end a line. A gap, and an event
 * that interrupts the line, end the lines of both directions. Pure.
 */
import { visibleColumns } from '../shared/log-formats/byte-text.ts';
import {
  type EntryRow,
  firstIdOf,
  type GapRow,
  type LineEvent,
  type LineRow,
  lineEndsOf,
  MAX_LINES,
  type Row,
} from './rows.ts';

/** A line without an end is cut here, at a whole character: a chunk of the port is as long. */
export const MAX_LINE_BYTES = 4_096;
/** A character of UTF-8 has at most so many bytes after its first. */
const MAX_CONTINUATION = 3;
const [LF, CR] = [10, 13];

/** A direction's last line, if the next bytes may belong to it: it has no end, or one that may be half of CR LF. */
interface Tail {
  line: LineRow;
  index: number;
}

type Tails = Partial<Record<EntryRow['dir'], Tail | undefined>>;

export class LineBuffer {
  readonly #maxLineBytes: number;
  #lines: (LineRow | GapRow)[] = [];
  #tails: Tails = {};
  #firstId = 0;
  #last: Row | undefined;
  #cuts: readonly number[] = [];
  #nextCut = 0;

  constructor(maxLineBytes = MAX_LINE_BYTES) {
    this.#maxLineBytes = maxLineBytes;
  }

  /**
   * The lines of the rows that are held now; a line that began before them is whole while any of it is held. Rows after those of
   * the last call cost no more than themselves. `cutsAfter`: ids in order; no line continues from one of these entries to the next.
   */
  update(rows: readonly Row[], cutsAfter: readonly number[] = []): readonly (LineRow | GapRow)[] {
    const firstId = firstIdOf(rows[0]);
    let next = this.#known(rows, firstId, cutsAfter);
    this.#cuts = cutsAfter;
    if (next === 0) {
      this.#lines = [];
      this.#tails = {};
      this.#nextCut = 0;
    } else {
      const lastId = this.#last?.id ?? 0;
      this.#nextCut = cutsAfter.findIndex((cut) => cut >= lastId);
      if (firstId > this.#firstId) this.#dropBefore(firstId);
    }
    this.#firstId = firstId;
    this.#last = rows.at(-1);
    for (; next < rows.length; next += 1) {
      const row = rows[next];
      if (row !== undefined) this.#take(row);
    }
    return [...this.#lines];
  }

  /** How many of the rows have been taken; 0: none of it can be used again. */
  #known(rows: readonly Row[], firstId: number, cutsAfter: readonly number[]): number {
    if (this.#last === undefined || firstId < this.#firstId) return 0;
    const { id: lastId } = this.#last;
    const applied = new Set(this.#cuts);
    // Events are known later than the entries around them.
    if (cutsAfter.some((cut) => cut >= firstId && cut < lastId && !applied.has(cut))) return 0;
    return rows.lastIndexOf(this.#last) + 1;
  }

  /** Of the lines that began before, at most one of each direction reaches what is held. */
  #dropBefore(firstId: number): void {
    const lines = this.#lines;
    const reaching: (LineRow | GapRow)[] = [];
    let count = 0;
    for (; count < lines.length; count += 1) {
      const line = lines[count];
      if (line === undefined || Math.floor(line.id) >= firstId) break;
      if (line.kind === 'line' && line.lastId >= firstId) reaching.push(line);
    }
    lines.splice(0, count, ...reaching);
    for (const dir of ['rx', 'tx'] as const) {
      const tail = this.#tails[dir];
      if (tail === undefined) continue;
      tail.index = lines.lastIndexOf(tail.line);
      if (tail.index < 0) this.#tails[dir] = undefined;
    }
  }

  #take(row: Row): void {
    let isCut = row.kind === 'gap';
    while ((this.#cuts[this.#nextCut] ?? Number.POSITIVE_INFINITY) < row.id) {
      this.#nextCut += 1;
      isCut = true;
    }
    if (isCut) this.#tails = {};
    if (row.kind === 'gap') this.#lines.push(row);
    else this.#split(row);
  }

  #split(entry: EntryRow): void {
    const { bytes, dir } = entry;
    // More lines than the page holds: bounded by their length alone.
    const hasEnds = lineEndsOf(bytes) <= MAX_LINES;
    // A line has one note.
    let tail = entry.note === '' ? this.#tails[dir] : undefined;
    let at = 0;
    if (bytes.length === 0 && entry.note !== '') this.#begin(entry, 0, bytes, 0);
    else if (tail !== undefined && tail.line.endBytes > 0 && bytes.length > 0) {
      if (hasEnds && bytes[0] === LF) at = this.#extend(tail, entry, bytes.subarray(0, 1), 2);
      tail = undefined;
    }
    while (at < bytes.length) {
      const { to, endBytes, isOver } = partOf(bytes, at, tail?.line.bytes.length ?? 0, this.#maxLineBytes, hasEnds);
      const part = bytes.subarray(at, to);
      if (tail === undefined) tail = this.#begin(entry, at, part, endBytes);
      else if (part.length > 0) this.#extend(tail, entry, part, endBytes);
      at = to;
      if (isOver || at < bytes.length) tail = undefined;
    }
    this.#tails[dir] = tail;
  }

  #begin(entry: EntryRow, at: number, bytes: Uint8Array, endBytes: LineRow['endBytes']): Tail {
    const { id, dir, timestampMs, clock } = entry;
    const line: LineRow = {
      kind: 'line',
      id: at === 0 ? id : id + at / (2 * entry.bytes.length),
      lastId: id,
      dir,
      timestampMs,
      clock,
      bytes,
      endBytes,
      note: at === 0 ? entry.note : '',
      columns: visibleColumns(bytes),
    };
    return { line, index: this.#lines.push(line) - 1 };
  }

  /** How many bytes it took. A line that grows is another object, so that what is known of it by its object stays true. */
  #extend(tail: Tail, { id: lastId }: EntryRow, part: Uint8Array, endBytes: LineRow['endBytes']): number {
    const bytes = new Uint8Array(tail.line.bytes.length + part.length);
    bytes.set(tail.line.bytes);
    bytes.set(part, tail.line.bytes.length);
    tail.line = { ...tail.line, lastId, bytes, endBytes, columns: visibleColumns(bytes) };
    this.#lines[tail.index] = tail.line;
    return part.length;
  }
}

interface Part {
  readonly to: number;
  readonly endBytes: LineRow['endBytes'];
  /** Nothing more belongs to the line. */
  readonly isOver: boolean;
}

/** The part of a line from `at` on, if the line has so many bytes already. */
function partOf(bytes: Uint8Array, at: number, had: number, maxBytes: number, hasEnds: boolean): Part {
  for (let to = at; to < bytes.length; to += 1) {
    const byte = bytes[to] ?? 0;
    if (hasEnds && byte === LF) return { to: to + 1, endBytes: 1, isOver: true };
    if (hasEnds && byte === CR) {
      const isPair = bytes[to + 1] === LF;
      return { to: isPair ? to + 2 : to + 1, endBytes: isPair ? 2 : 1, isOver: isPair };
    }
    const length = had + to - at;
    const isInside = (byte & 0xc0) === 0x80 && length < maxBytes + MAX_CONTINUATION;
    if (length >= maxBytes && !isInside) return { to, endBytes: 0, isOver: true };
  }
  return { to: bytes.length, endBytes: 0, isOver: false };
}

/** The entries after which no line continues: what is sent and received afterwards belongs to another connection. */
export function cutsOf(events: readonly LineEvent[]): readonly number[] {
  return events.filter(({ kind }) => !kind.startsWith('hold')).map(({ afterEntryId }) => afterEntryId);
}
