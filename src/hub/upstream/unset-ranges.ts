/**
 * Entries that went out with the mark that the clock was not set: when it is, the central side gets by how much their
 * times are off. Ranges of one boot; of an earlier boot they stay unknown. Pure.
 */

export interface SentUnset {
  /** Both '': none. */
  readonly logId: string;
  readonly bootId: string;
  /** [first id, last id], oldest first. */
  readonly ranges: readonly (readonly [number, number])[];
}

/** Of one boot. Beyond that the newest two become one. */
const MOST = 64;

export const nothingUnset: SentUnset = { logId: '', bootId: '', ranges: [] };

/** `ids`: of one batch, in order, those that were sent with the mark. */
export function sentUnset(
  before: SentUnset,
  { logId, bootId }: Pick<SentUnset, 'logId' | 'bootId'>,
  ids: readonly number[],
): SentUnset {
  const [first, last] = [ids[0], ids.at(-1)];
  if (first === undefined || last === undefined || bootId === '') return before;
  const isSame = before.bootId === bootId && before.logId === logId;
  return { logId, bootId, ranges: joined([...(isSame ? before.ranges : []), [first, last]]) };
}

/** What is left where those up to an entry are done with. */
export function unsetAfter(before: SentUnset, id: number): SentUnset {
  const ranges = before.ranges
    .filter(([, last]) => last > id)
    .map(([first, last]) => [Math.max(first, id + 1), last] as const);
  return ranges.length === 0 ? nothingUnset : { ...before, ranges };
}

function joined(ranges: readonly (readonly [number, number])[]): readonly (readonly [number, number])[] {
  const done: [number, number][] = [];
  for (const [first, last] of ranges) {
    const before = done.at(-1);
    if (before !== undefined && (first <= before[1] + 1 || done.length >= MOST)) before[1] = Math.max(before[1], last);
    else done.push([first, last]);
  }
  return done;
}
