/**
 * The part of the log that the page holds: one run of it without a hole, bounded in rows and bytes. New rows push out
 * the oldest, older ones that are asked for push out the newest. Pure.
 */

export interface EntryRow {
  readonly kind: 'entry';
  readonly id: number;
  readonly dir: 'rx' | 'tx';
  readonly timestampMs: number;
  readonly clock: 'known' | 'notSet' | 'corrected' | 'unknown';
  readonly bytes: Uint8Array;
  readonly note: string;
}

interface GapRow {
  readonly kind: 'gap';
  /** Its last one: rows are in the order of their ids. */
  readonly id: number;
  readonly firstId: number;
  readonly entries: number;
  readonly reason: string;
}

export type Row = EntryRow | GapRow;

export const MAX_ROWS = 5_000;
/** Of the entries' bytes: entries of 64 KiB each would be 300 MB of a phone's memory otherwise. */
const MAX_ROW_BYTES = 8 * 1024 * 1024;

export class RowBuffer {
  #rows: Row[] = [];
  #bytes = 0;
  #version = 0;
  readonly #maxRows: number;
  readonly #maxBytes: number;

  constructor(maxRows = MAX_ROWS, maxBytes = MAX_ROW_BYTES) {
    this.#maxRows = maxRows;
    this.#maxBytes = maxBytes;
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
    const first = this.#rows[0];
    return first === undefined ? 0 : first.kind === 'gap' ? first.firstId : first.id;
  }

  get lastId(): number {
    return this.#rows.at(-1)?.id ?? 0;
  }

  clear(): void {
    this.#rows = [];
    this.#bytes = 0;
    this.#version += 1;
  }

  /** Newer rows; what is here already is not taken again. */
  append(rows: readonly Row[]): void {
    for (const row of rows) {
      if (row.id <= this.lastId) continue;
      this.#rows.push(row);
      this.#bytes += sizeOf(row);
    }
    let drop = 0;
    while (this.#isOver(drop)) {
      this.#bytes -= sizeOf(this.#rows[drop]);
      drop += 1;
    }
    if (drop > 0) this.#rows.splice(0, drop);
    this.#version += 1;
  }

  /** Older rows, in the order of the log. Says whether newest rows were pushed out, so that the end of the log is not here. */
  prepend(rows: readonly Row[]): boolean {
    const first = this.firstId;
    const older = rows.filter((row) => first === 0 || row.id < first);
    this.#rows = [...older, ...this.#rows];
    for (const row of older) this.#bytes += sizeOf(row);
    let dropped = false;
    while (this.#isOver(0)) {
      this.#bytes -= sizeOf(this.#rows.pop());
      dropped = true;
    }
    this.#version += 1;
    return dropped;
  }

  /** One row stays in any case. */
  #isOver(dropped: number): boolean {
    const count = this.#rows.length - dropped;
    return count > 1 && (count > this.#maxRows || this.#bytes > this.#maxBytes);
  }
}

function sizeOf(row: Row | undefined): number {
  return row?.kind === 'entry' ? row.bytes.length : 0;
}
