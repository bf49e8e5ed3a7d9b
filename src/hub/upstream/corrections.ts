/**
 * By how much the times of entries are off that went out before the clock was set: read again from the log, which knows it by
 * then. The clock may also have been set by hand in between, so that the ends of a range differ: then it is halved until they
 * do not. Pure.
 */
import type { Correction } from './packer.ts';

/** What the log says now of an entry that was sent with the mark. */
export type Now =
  /** It is right by this much. */
  | { readonly correctionMs: number }
  /** Still not known: its boot is over, so it stays unknown; or it is gone. */
  | undefined;

/** Questions in all: 64 ranges, and some steps of the clock, each found by halves. Beyond that the beginning of a range stands for it. */
const MOST_LOOKS = 500;

/** `now` is asked of the first marked entry from the id on. Nothing is sent of what is not known. */
export async function correctionsOf(
  ranges: readonly (readonly [number, number])[],
  now: (id: number) => Promise<Now>,
): Promise<Correction[]> {
  const found: Correction[] = [];
  let looks = 0;
  for (const [first, last] of ranges) {
    const known = new Map<number, Now>();
    const at = async (id: number): Promise<Now> => {
      if (known.has(id)) return known.get(id);
      looks += 1;
      const there = await now(id);
      known.set(id, there);
      return there;
    };
    const open: [number, number][] = [[first, last]];
    for (let one = open.pop(); one !== undefined; one = open.pop()) {
      const [from, to] = one;
      const [head, tail] = [await at(from), await at(to)];
      if (from < to && head?.correctionMs !== tail?.correctionMs && head !== undefined && looks < MOST_LOOKS) {
        const middle = Math.floor((from + to) / 2);
        // The lower half is looked at first.
        open.push([middle + 1, to], [from, middle]);
        continue;
      }
      // The beginning of a range may be gone: what holds for its end holds for the rest, as far as can be known.
      const right = head ?? tail;
      if (right !== undefined) found.push({ firstId: from, lastId: to, correctionMs: right.correctionMs });
    }
  }
  return joined(found);
}

function joined(found: readonly Correction[]): Correction[] {
  const done: Correction[] = [];
  for (const one of found) {
    const before = done.at(-1);
    if (before?.correctionMs === one.correctionMs && before.lastId + 1 === one.firstId) {
      done[done.length - 1] = { ...before, lastId: one.lastId };
    } else done.push(one);
  }
  return done;
}
