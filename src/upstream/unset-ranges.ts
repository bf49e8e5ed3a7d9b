/**
 * Entries that went out with the mark that the clock was not set: when it is, the central side is told by how much their
 * times are off. Ranges of one boot; of an earlier boot nobody will ever know. Pure.
 */

export interface SentUnset {
  /** '': none. */
  readonly bootId: string;
  /** [first id, last id], oldest first. */
  readonly ranges: readonly (readonly [number, number])[];
}

/** Of one boot. Beyond that the newest two become one. */
const MOST = 64;

export const nothingUnset: SentUnset = { bootId: '', ranges: [] };

/** `unset`: ids of one batch, in order, that were sent with the mark; `between`: whether ids next to one another in it belong together. */
export function sentUnset(before: SentUnset, bootId: string, unset: readonly number[]): SentUnset {
  const [first, last] = [unset[0], unset.at(-1)];
  if (first === undefined || last === undefined || bootId === '') return before;
  if (before.bootId !== bootId) return { bootId, ranges: [[first, last]] };
  return { bootId, ranges: joined([...before.ranges, [first, last]]) };
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
