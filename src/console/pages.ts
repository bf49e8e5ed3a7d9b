/**
 * Pages of the stored log, before and after what is shown. Ids have holes without a word of it: a power cut leaves up to 16,384
 * unused ones, and the entries before them are found by halving. Pure.
 */
import { linesIn, MAX_LINES, type Row, RowBuffer, sizeOf } from './rows.ts';

/** Reads the first rows after an id, in the order of the log, of at most so many entries; `take` gets them as they come. */
export type ReadRows = (after: number, limit: number, take: (row: Row) => void) => Promise<void>;

/** Asked for at a time: some screens of them. */
export const PAGE_ENTRIES = 500;
/** Held of them: 500 entries of the largest size would be more than a phone's memory. */
const PAGE_BYTES = 4 * 1024 * 1024;
/** Likewise: with a page before them, the rows that were shown first stay. */
const PAGE_LINES = MAX_LINES / 2;

/** The first rows of a page that fit. */
export function pageTaker(): { readonly rows: readonly Row[]; readonly take: (row: Row) => void } {
  const rows: Row[] = [];
  let [bytes, lines] = [0, 0];
  return {
    rows,
    take(row) {
      bytes += sizeOf(row);
      lines += linesIn(row);
      if ((bytes <= PAGE_BYTES && lines <= PAGE_LINES) || rows.length === 0) rows.push(row);
    },
  };
}

/** None: `firstId` is the first there is. `firstStored`: retention has removed what was before it. */
export async function olderRows(read: ReadRows, firstId: number, firstStored: number): Promise<readonly Row[]> {
  // Asked for an entry that retention has removed, the box refuses the whole page.
  const floor = Math.max(0, firstStored - 1);
  const rows = await rowsBefore(read, firstId, firstId, floor);
  if (rows.length > 0) return rows;
  const end = await endOfHole(read, firstId, floor);
  return end === undefined ? [] : rowsBefore(read, end, firstId, floor);
}

/** Nothing is known to be between `before` and `firstId`. */
async function rowsBefore(read: ReadRows, before: number, firstId: number, floor: number): Promise<readonly Row[]> {
  const after = Math.max(floor, before - PAGE_ENTRIES - 1);
  if (after >= before - 1) return [];
  const kept = new RowBuffer(2 * PAGE_ENTRIES, PAGE_BYTES, PAGE_LINES);
  await read(after, PAGE_ENTRIES, (row) => row.id < firstId && kept.append([row]));
  return kept.rows;
}

/** An id that the last row before `firstId` is less than a page before; undefined: there is none. */
async function endOfHole(read: ReadRows, firstId: number, floor: number): Promise<number | undefined> {
  const next = async (after: number): Promise<number | undefined> => {
    let found: number | undefined;
    await read(after, 1, ({ id }) => {
      found ??= id;
    });
    return found !== undefined && found < firstId ? found : undefined;
  };
  let known = floor < firstId - 1 ? await next(floor) : undefined;
  if (known === undefined) return undefined;
  /** From here on there is nothing. */
  let end = firstId;
  while (end - known > PAGE_ENTRIES) {
    const middle = Math.floor((known + end) / 2);
    const found = await next(middle);
    if (found === undefined) end = middle + 1;
    else known = found;
  }
  return end;
}
