/** Where each row of the log stands in its list, which rows are in sight, and how far to scroll to one. Pure. */
import { textColumns } from '../shared/log-formats/byte-text.ts';
import { plural } from './format.ts';
import type { ShownRow } from './rows.ts';
import { text } from './text.ts';

/**
 * Not `@tanstack/virtual-core` (3.19.11): the heights are known here, so it would replace this class only, at 9.8 kB of the first view
 * and 190 us instead of 65 for each batch of a full list (5,000 rows, x86-64): it makes an object for each row.
 */
export class RowLayout {
  /** Of each row, and below the last one. */
  readonly #tops: Float64Array;

  constructor(rows: readonly ShownRow[], heightOf: (row: ShownRow) => number) {
    this.#tops = new Float64Array(rows.length + 1);
    let [top, below] = [0, 0];
    for (const row of rows) {
      top += heightOf(row);
      below += 1;
      this.#tops[below] = top;
    }
  }

  get count(): number {
    return this.#tops.length - 1;
  }

  get wholePx(): number {
    return this.topOf(this.count);
  }

  topOf(index: number): number {
    return this.#tops[index] ?? 0;
  }

  /** The row at this height; the count of rows: it is below all of them. */
  indexAt(px: number): number {
    let [from, to] = [0, this.count];
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (this.topOf(middle + 1) > px) to = middle;
      else from = middle + 1;
    }
    return from;
  }

  /** The rows in sight and a few on each side. */
  drawn(scrollPx: number, viewPx: number): { readonly from: number; readonly to: number } {
    const last = this.indexAt(scrollPx + viewPx + BEYOND_PX);
    return { from: this.indexAt(scrollPx - BEYOND_PX), to: Math.min(last + 1, this.count) };
  }

  /** The scroll position that shows a row, its begin if it is higher than the view; the current one if it is in sight. */
  scrollToShow(index: number, scrollPx: number, viewPx: number): number {
    const [top, bottom] = [this.topOf(index), this.topOf(index + 1)];
    if (top < scrollPx) return top;
    return bottom > scrollPx + viewPx ? Math.min(top, bottom - viewPx) : scrollPx;
  }

  /** A row that is higher than the view begins at its top. */
  scrollToMiddle(index: number, viewPx: number): number {
    const [top, bottom] = [this.topOf(index), this.topOf(index + 1)];
    return top - Math.max(0, (viewPx - (bottom - top)) / 2);
  }
}

/** Beyond each edge of the view, so that a quick finger does not see an empty list. */
const BEYOND_PX = 400;

/** Screens of fractional scale round to whole pixels. */
const SLACK_PX = 4;

export function isAtEnd(scrollPx: number, viewPx: number, wholePx: number): boolean {
  return scrollPx + viewPx >= wholePx - SLACK_PX;
}

// The height of a line of text that wraps: counted, because a row that was never drawn cannot be measured.

export interface TextSize {
  /** Of the list, in characters. */
  readonly columns: number;
  readonly linePx: number;
}

/** "13:05:09.120", the mark of the clock, the direction, and the spaces after these: as log-row.tsx draws them. */
const HEAD_COLUMNS = 17;
/** Then what is wrapped stands below the text, not below the time. */
const HANGING_COLUMNS = 80;
/** Above and below the text, and the border: as in log.css. */
const EDGE_PX = 9;

export function hangs({ columns }: TextSize): boolean {
  return columns >= HANGING_COLUMNS;
}

/** The height of each row. */
export function wrappedPx(size: TextSize): (row: ShownRow) => number {
  const first = Math.max(1, size.columns - HEAD_COLUMNS);
  const next = hangs(size) ? first : Math.max(1, size.columns);
  return (row) => {
    const columns = columnsOf(row);
    const more = columns > first ? Math.ceil((columns - first) / next) : 0;
    return (1 + more) * size.linePx + EDGE_PX;
  };
}

/** At most, without the head. */
function columnsOf(row: ShownRow): number {
  switch (row.kind) {
    case 'line':
      return row.columns + (row.note === '' ? 0 : 1 + textColumns(row.note));
    case 'event':
      return textColumns(text.log.event(row.event));
    case 'gap':
      return textColumns(text.log.missing(plural(row.entries, 'entry is', 'entries are'), row.reason));
    case 'entry':
      return 0;
  }
}
