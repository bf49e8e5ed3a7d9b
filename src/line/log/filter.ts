/** Which entries a reader wants. Pure; the same rule for stored blocks (in the worker) and live entries. */
import type { Direction, LogEntry, Uint64 } from './entry.ts';
import { type Columns, givenTime } from './packed.ts';
import { correct } from './segments.ts';
import { compareUint64, fromHalves } from './uint64.ts';

/** A plain object that goes through postMessage: bounds as halves, since a Long loses its class on the way. */
export interface Filter {
  readonly dir: Direction | undefined;
  readonly since: Halves | undefined;
  /** Not included. */
  readonly until: Halves | undefined;
}

interface Halves {
  readonly high: number;
  readonly low: number;
}

export function filtersAnything(filter: Filter): boolean {
  return filter.dir !== undefined || filter.since !== undefined || filter.until !== undefined;
}

export function matcher(filter: Filter): (entry: Pick<LogEntry, 'dir' | 'timestampMs'>) => boolean {
  const since = boundOf(filter.since);
  const until = boundOf(filter.until);
  return ({ dir, timestampMs }) =>
    (filter.dir === undefined || filter.dir === dir) &&
    (since === undefined || compareUint64(timestampMs, since) >= 0) &&
    (until === undefined || compareUint64(timestampMs, until) < 0);
}

/** Whether an entry of a block is wanted; `correctionAt(i)`: what is to be added to the stamp of the i-th entry. */
export function anyMatches(columns: Columns, filter: Filter, correctionAt: (i: number) => number): boolean {
  const matches = matcher(filter);
  return columns.dirs.some((dir, i) => {
    const stampedMs = fromHalves(columns.highs[i] ?? 0, columns.lows[i] ?? 0);
    const isGiven = (dir & givenTime) !== 0;
    return matches({
      dir: (dir & ~givenTime) === 0 ? 0 : 1,
      timestampMs: isGiven ? stampedMs : correct(stampedMs, correctionAt(i)),
    });
  });
}

function boundOf(halves: Halves | undefined): Uint64 | undefined {
  return halves === undefined ? undefined : fromHalves(halves.high, halves.low);
}
