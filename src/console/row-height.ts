/** The height of a row of the log that wraps: counted, because a row that was never drawn cannot be measured. Pure. */
import { textColumns } from '../shared/log-formats/byte-text.ts';
import { plural } from './format.ts';
import type { ShownRow } from './rows.ts';
import { text } from './text.ts';

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
