/**
 * What the box knew of the time, by ranges of entries. A segment holds from its first id to the next one's: which boot,
 * by how much the wall clock was ahead of that boot's monotonic clock, and whether it was known to be right. When the
 * true offset of a boot becomes known, the stamps of its other segments are off by the difference. Pure.
 */
import type { EntryClock, LogEntry, LogGap, Uint64 } from './entry.ts';
import type { TimeState } from './log-api.ts';

export interface Segment {
  readonly firstId: number;
  /** 'unmarked': nothing is known of these entries' stamps (an earlier version wrote them). */
  readonly state: TimeState | 'unmarked';
  readonly bootId: string;
  /** Wall clock minus the boot's monotonic clock. */
  readonly offsetMs: number;
  /** To be added to the stamps; undefined: not known (yet). */
  readonly correctionMs: number | undefined;
}

/**
 * A smaller move of the offset is no step of the clock: time sync slews what is below 0.4 s (both clocks alike), and two
 * clocks read one after the other may differ by the time that a busy machine takes in between.
 */
export const stepMs = 400;

/** What readers get of a stamp, and what is added to it. */
export interface Mark {
  readonly clock: EntryClock | undefined;
  readonly correctionMs: number;
}

const unmarked: Mark = { clock: undefined, correctionMs: 0 };
const known: Mark = { clock: 'known', correctionMs: 0 };
const notSet: Mark = { clock: 'notSet', correctionMs: 0 };

export function markOf(segment: Segment | undefined): Mark {
  if (segment === undefined || segment.state === 'unmarked') return unmarked;
  if (segment.state === 'synced') return known;
  if (segment.correctionMs === undefined) return segment.state === 'unsynced' ? notSet : unmarked;
  if (Math.abs(segment.correctionMs) < stepMs) return known;
  return { clock: 'corrected', correctionMs: segment.correctionMs };
}

/** Stamps of the service are plain numbers; one before 1970 has no form on the wire. */
export function correct(timestampMs: Uint64, correctionMs: number): Uint64 {
  return correctionMs === 0 ? timestampMs : Math.max(0, Number(timestampMs) + correctionMs);
}

/** An entry as it was stamped, as readers get it. */
export function marked(entry: LogEntry, { clock, correctionMs }: Mark): LogEntry {
  if (clock === undefined || entry.timeGiven === true) return entry;
  if (correctionMs === 0) return { ...entry, clock };
  const { timestampMs } = entry;
  return { ...entry, clock, timestampMs: correct(timestampMs, correctionMs), uncorrectedMs: Number(timestampMs) };
}

/** The segments of one log, in order of their first ids. */
export class Segments {
  #all: Segment[] = [];
  /** The segment that was looked up last holds ids from .. to: neighbours are asked for one after the other. */
  #last = { from: 1, to: 0, mark: unmarked, bootId: '' };

  get all(): readonly Segment[] {
    return this.#all;
  }

  get newest(): Segment | undefined {
    return this.#all.at(-1);
  }

  /** Adds a segment, or replaces the one that begins with the same entry. */
  put(segment: Segment): void {
    let at = this.#all.length;
    while (at > 0 && (this.#all[at - 1]?.firstId ?? 0) >= segment.firstId) at--;
    this.#all.splice(at, this.#all[at]?.firstId === segment.firstId ? 1 : 0, segment);
    this.#forget();
  }

  replaceAll(segments: readonly Segment[]): void {
    this.#all = [...segments];
    this.#forget();
  }

  markAt(id: number): Mark {
    if (id < this.#last.from || id > this.#last.to) this.#look(id);
    return this.#last.mark;
  }

  /** The ids `from` to `to` in runs that are corrected by the same. */
  *stretches(from: number, to: number): Generator<{ from: number; to: number; correctionMs: number }> {
    let stretch = { from, to, correctionMs: this.markAt(from).correctionMs };
    for (const segment of this.#all) {
      if (segment.firstId <= from || segment.firstId > to) continue;
      const { correctionMs } = markOf(segment);
      if (correctionMs === stretch.correctionMs) continue;
      yield { ...stretch, to: segment.firstId - 1 };
      stretch = { from: segment.firstId, to, correctionMs };
    }
    yield stretch;
  }

  /** The boot in which the entry was stamped; '': not known. */
  bootAt(id: number): string {
    if (id < this.#last.from || id > this.#last.to) this.#look(id);
    return this.#last.bootId;
  }

  /** A gap's times are stamps of the entries that were lost. */
  marked(gap: LogGap): LogGap {
    const fromMs = correct(gap.fromMs, this.markAt(gap.firstId).correctionMs);
    return { ...gap, fromMs, toMs: correct(gap.toMs, this.markAt(gap.lastId).correctionMs) };
  }

  /** Segments whose entries are all below the id are dropped. */
  dropBefore(id: number): void {
    const keepFrom = this.#all.findLastIndex(({ firstId }) => firstId <= id);
    if (keepFrom <= 0) return;
    this.#all.splice(0, keepFrom);
    this.#forget();
  }

  /** Corrects whatever can be corrected in this boot; the segments that changed by it. '': which boot is not known. */
  settle(bootId: string): Segment[] {
    const truth = this.#all.findLast((one) => one.state === 'synced' && one.bootId === bootId);
    if (truth === undefined || bootId === '') return [];
    const isOpen = (one: Segment): boolean =>
      one.bootId === bootId && (one.state === 'unsynced' || one.state === 'unknown') && one.correctionMs === undefined;
    const settled = this.#all
      .filter(isOpen)
      .map((one) => ({ ...one, correctionMs: Math.round(truth.offsetMs - one.offsetMs) }));
    for (const segment of settled) this.put(segment);
    return settled;
  }

  #look(id: number): void {
    const next = this.#all.findIndex(({ firstId }) => firstId > id);
    const segment = this.#all[(next === -1 ? this.#all.length : next) - 1];
    const to = (this.#all[next]?.firstId ?? Number.POSITIVE_INFINITY) - 1;
    this.#last = { from: segment?.firstId ?? 0, to, mark: markOf(segment), bootId: segment?.bootId ?? '' };
  }

  #forget(): void {
    this.#last = { from: 1, to: 0, mark: unmarked, bootId: '' };
  }
}
