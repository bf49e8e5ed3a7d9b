/**
 * By how much the times of entries are off that were sent before the clock was set: read again from the log, which knows it by
 * then. The clock may also have been set by hand in between, so that the ends of a range differ: then it is halved until they
 * do not. Pure.
 */
import type { Correction } from './packer.ts';

/** The current answer of the log about an entry that was sent with the mark. */
export type Now =
  /** It is right by this much. */
  | { readonly correctionMs: number }
  /** Still not known: its boot is over, so it stays unknown; or it is gone. */
  | undefined;

/** In all: 64 ranges, and some steps of the clock, each found by bisection. Beyond that the start of a range is taken for all of it. */
const MAX_QUERIES = 500;

/** `now` answers for the first marked entry from the id on. A correction that is not known is not sent. */
export async function correctionsOf(
  ranges: readonly (readonly [number, number])[],
  now: (id: number) => Promise<Now>,
): Promise<Correction[]> {
  const found: Correction[] = [];
  let queries = 0;
  for (const [first, last] of ranges) {
    const known = new Map<number, Now>();
    const at = async (id: number): Promise<Now> => {
      if (known.has(id)) return known.get(id);
      queries += 1;
      const there = await now(id);
      known.set(id, there);
      return there;
    };
    const open: [number, number][] = [[first, last]];
    for (let one = open.pop(); one !== undefined; one = open.pop()) {
      const [from, to] = one;
      const [head, tail] = [await at(from), await at(to)];
      if (from < to && head?.correctionMs !== tail?.correctionMs && head !== undefined && queries < MAX_QUERIES) {
        const middle = Math.floor((from + to) / 2);
        // The lower half comes first.
        open.push([middle + 1, to], [from, middle]);
        continue;
      }
      // The beginning of a range may be gone: what holds for its end holds for the rest, as far as can be known.
      const right = head ?? tail;
      if (right === undefined) continue;
      const { correctionMs } = right;
      const before = found.at(-1);
      if (before?.correctionMs === correctionMs && before.lastId + 1 === from)
        found[found.length - 1] = { ...before, lastId: to };
      else found.push({ firstId: from, lastId: to, correctionMs });
    }
  }
  return found;
}

// Entries that were sent with the mark that the clock was not set: as soon as it is, the remote gets by how much their times are
// off. Ranges of one boot; those of an earlier boot stay unknown.

export interface SentUnset {
  /** Both '': none. */
  readonly logId: string;
  readonly bootId: string;
  /** [first id, last id], oldest first. */
  readonly ranges: readonly (readonly [number, number])[];
}

/** Of one boot. Beyond that the newest two become one. */
const MAX_RANGES = 64;

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
  return { logId, bootId, ranges: joinedRanges([...(isSame ? before.ranges : []), [first, last]]) };
}

/** The ranges that remain after those up to an entry were corrected. */
export function unsetAfter(before: SentUnset, id: number): SentUnset {
  const ranges = before.ranges
    .filter(([, last]) => last > id)
    .map(([first, last]) => [Math.max(first, id + 1), last] as const);
  return ranges.length === 0 ? nothingUnset : { ...before, ranges };
}

function joinedRanges(ranges: readonly (readonly [number, number])[]): readonly (readonly [number, number])[] {
  const done: [number, number][] = [];
  for (const [first, last] of ranges) {
    const before = done.at(-1);
    if (before !== undefined && (first <= before[1] + 1 || done.length >= MAX_RANGES))
      before[1] = Math.max(before[1], last);
    else done.push([first, last]);
  }
  return done;
}
