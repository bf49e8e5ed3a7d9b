/**
 * The rows right before those that are shown. Ids have holes without a word of it: a power cut leaves up to 16,384 unused
 * ones, and the entries before them are found by halving. Pure.
 */
import { type Row, RowBuffer } from './rows.ts';

export interface OlderOptions {
  /** The first rows after an id, in the order of the log, of at most so many entries; `take` gets them as they come. */
  readonly read: (after: number, limit: number, take: (rows: readonly Row[]) => void) => Promise<void>;
}

/** Asked for at a time: some screens of them. */
const OLDER_ENTRIES = 500;
/** Held of them, from the newest backwards: 500 entries of the largest size would be more than a phone's memory. */
const OLDER_BYTES = 4 * 1024 * 1024;

/** None: `firstId` is the first there is. `firstStored`: retention has removed what was before it. */
export async function olderRows(options: OlderOptions, firstId: number, firstStored: number): Promise<readonly Row[]> {
  // Asked for an entry that retention has removed, the box refuses the whole page.
  const floor = Math.max(0, firstStored - 1);
  const rows = await rowsBefore(options, firstId, firstId, floor);
  if (rows.length > 0) return rows;
  const end = await endOfHole(options, firstId, floor);
  return end === undefined ? [] : rowsBefore(options, end, firstId, floor);
}

/** Nothing is known to be between `before` and `firstId`. */
async function rowsBefore(
  options: OlderOptions,
  before: number,
  firstId: number,
  floor: number,
): Promise<readonly Row[]> {
  const after = Math.max(floor, before - OLDER_ENTRIES - 1);
  if (after >= before - 1) return [];
  const kept = new RowBuffer(2 * OLDER_ENTRIES, OLDER_BYTES);
  await options.read(after, OLDER_ENTRIES, (rows) => kept.append(rows.filter(({ id }) => id < firstId)));
  return kept.rows;
}

/** An id that the last row before `firstId` is less than a page before; undefined: there is none. */
async function endOfHole(options: OlderOptions, firstId: number, floor: number): Promise<number | undefined> {
  const next = async (after: number): Promise<number | undefined> => {
    let found: number | undefined;
    await options.read(after, 1, ([row]) => {
      found ??= row?.id;
    });
    return found !== undefined && found < firstId ? found : undefined;
  };
  let known = floor < firstId - 1 ? await next(floor) : undefined;
  if (known === undefined) return undefined;
  /** From here on there is nothing. */
  let end = firstId;
  while (end - known > OLDER_ENTRIES) {
    const middle = Math.floor((known + end) / 2);
    const found = await next(middle);
    if (found === undefined) end = middle + 1;
    else known = found;
  }
  return end;
}
