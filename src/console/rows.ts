/**
 * The rows of the log: the part that the page holds (one run without a hole, bounded in rows and bytes; new rows push out the
 * oldest, older ones that the user requests push out the newest), the rows that match a search, and those in sight. Pure.
 */
import type { LineEvents } from '../shared/gen/http.ts';
import { bytesOfHex, bytesOfText } from './bytes.ts';

export type LineEvent = LineEvents['items'][number];

export interface EntryRow {
  readonly kind: 'entry';
  readonly id: number;
  readonly dir: 'rx' | 'tx';
  readonly timestampMs: number;
  readonly clock: 'known' | 'notSet' | 'corrected' | 'unknown';
  /** With the clock 'corrected'. */
  readonly uncorrectedTimestampMs?: number;
  readonly bytes: Uint8Array;
  readonly note: string;
}

export interface GapRow {
  readonly kind: 'gap';
  /** The last missing id: rows are in the order of their ids. */
  readonly id: number;
  readonly firstId: number;
  readonly entries: number;
  readonly reason: string;
  /** Of entries that could not be stored: undefined for those that were removed. */
  readonly bytes?: number;
  readonly fromMs?: number;
  readonly toMs?: number;
}

export type Row = EntryRow | GapRow;

/** Something that happened to the line, between the entries. */
interface EventRow {
  readonly kind: 'event';
  /** Behind those of the entry before it and of the lines that begin there, and before the next one's. */
  readonly id: number;
  readonly event: LineEvent;
}

/** A line of text, of one entry or of several. */
export interface LineRow {
  readonly kind: 'line';
  /** The entry of its first byte, and that byte's place in the entry as a fraction below a half: lines are in the order of their ids. */
  readonly id: number;
  /** The entry of its last byte. */
  readonly lastId: number;
  readonly dir: 'rx' | 'tx';
  /** Of its first byte. */
  readonly timestampMs: number;
  readonly clock: EntryRow['clock'];
  readonly bytes: Uint8Array;
  /** How many of the bytes are its end; 0: it was cut, or more of it may come. */
  readonly endBytes: 0 | 1 | 2;
  readonly note: string;
  /** Of a terminal, that its text fills at most. */
  readonly columns: number;
}

/** The bytes of one direction, in one of the forms in which they are shown. */
export type BytesRow = EntryRow | LineRow;

export type ShownRow = BytesRow | GapRow | EventRow;

export const MAX_ROWS = 5_000;
/** Limit of the entries' bytes: entries of 64 KiB each would be 300 MB of a phone's memory. */
const MAX_ROW_BYTES = 8 * 1024 * 1024;
/** Limit of the ends of lines in the entries: each line is a row of its own in one view of the log, of some 300 bytes beside its text. */
export const MAX_LINES = 50_000;

export class RowBuffer {
  #rows: Row[] = [];
  #bytes = 0;
  #lines = 0;
  #version = 0;
  readonly #maxRows: number;
  readonly #maxBytes: number;
  readonly #maxLines: number;

  constructor(maxRows = MAX_ROWS, maxBytes = MAX_ROW_BYTES, maxLines = MAX_LINES) {
    this.#maxRows = maxRows;
    this.#maxBytes = maxBytes;
    this.#maxLines = maxLines;
  }

  /** Changes with every change of the rows. */
  get version(): number {
    return this.#version;
  }

  get rows(): readonly Row[] {
    return this.#rows;
  }

  /** 0: there are none. */
  get firstId(): number {
    return firstIdOf(this.#rows[0]);
  }

  get lastId(): number {
    return this.#rows.at(-1)?.id ?? 0;
  }

  clear(): void {
    this.#rows = [];
    this.#bytes = 0;
    this.#lines = 0;
    this.#version += 1;
  }

  /** Newer rows; known ones are skipped. */
  append(rows: readonly Row[]): void {
    for (const row of rows) {
      if (row.id <= this.lastId) continue;
      this.#rows.push(row);
      this.#count(row, 1);
    }
    let drop = 0;
    while (this.#isOver(drop)) {
      this.#count(this.#rows[drop], -1);
      drop += 1;
    }
    if (drop > 0) this.#rows.splice(0, drop);
    this.#version += 1;
  }

  /** Older rows, in the order of the log. true: newest rows were pushed out, the end of the log is no longer held. */
  prepend(rows: readonly Row[]): boolean {
    const first = this.firstId;
    const older = rows.filter((row) => first === 0 || row.id < first);
    this.#rows = [...older, ...this.#rows];
    for (const row of older) this.#count(row, 1);
    let dropped = false;
    while (this.#isOver(0)) {
      this.#count(this.#rows.pop(), -1);
      dropped = true;
    }
    this.#version += 1;
    return dropped;
  }

  /** One row stays in any case. */
  #isOver(dropped: number): boolean {
    const count = this.#rows.length - dropped;
    return count > 1 && (count > this.#maxRows || this.#bytes > this.#maxBytes || this.#lines > this.#maxLines);
  }

  #count(row: Row | undefined, times: 1 | -1): void {
    this.#bytes += times * sizeOf(row);
    this.#lines += times * linesIn(row);
  }
}

/** 0: there is no row. */
export function firstIdOf(row: Row | undefined): number {
  return row === undefined ? 0 : row.kind === 'gap' ? row.firstId : row.id;
}

export function sizeOf(row: Row | undefined): number {
  return row?.kind === 'entry' ? row.bytes.length : 0;
}

export function linesIn(row: Row | undefined): number {
  return row?.kind === 'entry' ? lineEndsOf(row.bytes) : 0;
}

/** CR, LF and CR LF: each is one. */
export function lineEndsOf(bytes: Uint8Array): number {
  let ends = 0;
  for (let at = 0; at < bytes.length; at += 1)
    if (bytes[at] === 10 || (bytes[at] === 13 && bytes[at + 1] !== 10)) ends += 1;
  return ends;
}

/** Events at one place of the log that can be told apart: more than a port is opened between two entries. */
const EVENTS_AT_ONE_PLACE = 4_096;

/**
 * The rows with the events that belong between them. `held`: all rows of this place in the log, of which `rows` may be a few.
 * `endsLog`: no entry is behind the last one, so that what happened since then belongs there.
 */
export function withEvents(
  rows: readonly (BytesRow | GapRow)[],
  events: readonly LineEvent[],
  held: readonly Row[],
  endsLog: boolean,
): readonly ShownRow[] {
  const from = firstIdOf(held[0]) - 1;
  const to = endsLog ? Number.POSITIVE_INFINITY : (held.at(-1)?.id ?? -1);
  const wanted = events.filter(({ afterEntryId }) => afterEntryId >= from && afterEntryId <= to);
  if (wanted.length === 0) return rows;
  const shown: ShownRow[] = [];
  let next = 0;
  const eventsBefore = (id: number): void => {
    for (let same = 1; ; same += 1) {
      const event = wanted[next];
      if (event === undefined || event.afterEntryId >= id) return;
      if (event.afterEntryId !== wanted[next - 1]?.afterEntryId) same = 1;
      shown.push({ kind: 'event', id: event.afterEntryId + (1 + same / EVENTS_AT_ONE_PLACE) / 2, event });
      next += 1;
    }
  };
  for (const row of rows) {
    eventsBefore(Math.floor(row.id));
    shown.push(row);
  }
  eventsBefore(Number.POSITIVE_INFINITY);
  return shown;
}

// Which rows are shown.

export interface Wanted {
  readonly dir: 'all' | 'rx' | 'tx';
  readonly text: string;
  readonly as: 'text' | 'hex';
}

export const everything: Wanted = { dir: 'all', text: '', as: 'text' };

export interface Filter {
  /** Why the typed text is no pattern; '' if it is one. With a fault everything of the direction is shown. */
  readonly fault: string;
  readonly narrows: boolean;
  readonly matches: (row: BytesRow | GapRow) => boolean;
}

/** Text is found whatever the case of its ASCII letters; a search does not reach over the end of a row. */
export function filterFor({ dir, text, as }: Wanted): Filter {
  const typed = as === 'hex' ? bytesOfHex(text) : bytesOfText(text);
  const fault = 'fault' in typed ? typed.fault : '';
  const needle = 'bytes' in typed ? typed.bytes : new Uint8Array();
  const folded = as === 'text' ? needle.map(lower) : needle;
  /** Rows that were searched are not searched again with every new entry: the page holds megabytes. */
  const known = new WeakMap<BytesRow, boolean>();
  const finds = needle.length === 0 ? () => true : (bytes: Uint8Array) => includes(bytes, folded, as === 'text');
  return {
    fault,
    narrows: dir !== 'all' || needle.length > 0,
    // A gap may contain a match, and is always shown.
    matches(row) {
      if (row.kind === 'gap') return true;
      if (dir !== 'all' && row.dir !== dir) return false;
      const found = known.get(row) ?? finds(row.bytes);
      known.set(row, found);
      return found;
    },
  };
}

function includes(bytes: Uint8Array, needle: Uint8Array, folds: boolean): boolean {
  const last = bytes.length - needle.length;
  for (let at = 0; at <= last; at += 1) {
    let same = 0;
    while (same < needle.length) {
      const byte = bytes[at + same] ?? 0;
      if ((folds ? lower(byte) : byte) !== needle[same]) break;
      same += 1;
    }
    if (same === needle.length) return true;
  }
  return false;
}

function lower(byte: number): number {
  return byte >= 65 && byte <= 90 ? byte + 32 : byte;
}
