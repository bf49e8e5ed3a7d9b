/**
 * What the box knew of the time, by ranges of entries. A segment holds from its first id to the next one's: which boot,
 * by how much the wall clock was ahead of that boot's monotonic clock, and whether it was known to be right. When the
 * true offset of a boot becomes known, the stamps of its other segments are off by the difference. Pure.
 */
import type { EntryClock, LogEntry, LogGap, Stamp, Uint64 } from './entry.ts';
import type { TimeSource, TimeState } from './log-api.ts';

/** What was known of the time when a stamp was made. */
export interface StampedBy {
  /** 'unmarked': nothing (an earlier version made it). */
  readonly state: TimeState | 'unmarked';
  readonly bootId: string;
  /** Wall clock minus the boot's monotonic clock. */
  readonly offsetMs: number;
}

export interface Segment extends StampedBy {
  readonly firstId: number;
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

export function markOf(segment: Omit<Segment, 'firstId'> | undefined): Mark {
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
  }

  replaceAll(segments: readonly Segment[]): void {
    this.#all = [...segments];
  }

  markAt(id: number): Mark {
    return markOf(this.#at(id));
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

  /** How the ids `from` to `to` were stamped. */
  stamps(from: number, to: number): Stamp[] {
    const first = this.#all.findLastIndex(({ firstId }) => firstId <= from);
    const within = this.#all.slice(Math.max(0, first)).filter(({ firstId }) => firstId <= to);
    return within.map((one) => ({ firstId: one.firstId, bootId: one.bootId, ...markOf(one) }));
  }

  /** The boot in which the entry was stamped; '': not known. */
  bootAt(id: number): string {
    return this.#at(id)?.bootId ?? '';
  }

  /** A gap's times are stamps of the entries that were lost. */
  marked(gap: LogGap): LogGap {
    const fromMs = correct(gap.fromMs, this.markAt(gap.firstId).correctionMs);
    return { ...gap, fromMs, toMs: correct(gap.toMs, this.markAt(gap.lastId).correctionMs) };
  }

  /** Segments whose entries are all below the id are dropped. */
  dropBefore(id: number): void {
    const keepFrom = this.#all.findLastIndex(({ firstId }) => firstId <= id);
    if (keepFrom > 0) this.#all.splice(0, keepFrom);
  }

  /** Of a stamp that is no entry's. */
  markOfStamp(by: StampedBy): Mark {
    const truth = this.#truthOf(by.bootId);
    if (truth !== undefined) return markOf({ ...by, correctionMs: Math.round(truth.offsetMs - by.offsetMs) });
    // A segment without entries was not stored; what it corrected by was, with those that had some.
    const { state, bootId, offsetMs } = by;
    const own = this.#all.find((one) => one.state === state && one.bootId === bootId && one.offsetMs === offsetMs);
    return markOf(own ?? { ...by, correctionMs: undefined });
  }

  #truthOf(bootId: string): Segment | undefined {
    return bootId === '' ? undefined : this.#all.findLast((one) => one.state === 'synced' && one.bootId === bootId);
  }

  /** Corrects whatever can be corrected in this boot; the segments that changed by it. '': which boot is not known. */
  settle(bootId: string): Segment[] {
    const truth = this.#truthOf(bootId);
    if (truth === undefined) return [];
    const isOpen = (one: Segment): boolean =>
      one.bootId === bootId && (one.state === 'unsynced' || one.state === 'unknown') && one.correctionMs === undefined;
    const settled = this.#all
      .filter(isOpen)
      .map((one) => ({ ...one, correctionMs: Math.round(truth.offsetMs - one.offsetMs) }));
    for (const segment of settled) this.put(segment);
    return settled;
  }

  /** The last that begins at or before the id. */
  #at(id: number): Segment | undefined {
    let [from, to] = [0, this.#all.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if ((this.#all[middle]?.firstId ?? 0) <= id) from = middle + 1;
      else to = middle;
    }
    return this.#all[from - 1];
  }
}

/**
 * Marks each entry with what the box knows of the time when the entry is stamped, and corrects earlier entries of this boot
 * once the time is known. A new segment begins with the service, when the state of the time changes, and when an operator
 * sets a clock that is not known to be right. Each entry checks for the last, so its stamp belongs to its own segment.
 * Segments are stored with the first entries that they hold, corrections on their own.
 */
export class TimeMarks {
  readonly #time: TimeSource | undefined;
  readonly segments = new Segments();
  /** First ids of what the file does not have in this form yet. */
  #unwritten = new Set<number>();
  #mark: Mark = markOf(undefined);
  #offsetMs = 0;
  #watching = false;
  #loaded = false;
  #correctedByMs: number | undefined;

  /** Without a source no entry is marked. */
  constructor(time: TimeSource | undefined) {
    this.#time = time;
    this.#begin(1);
  }

  get state(): TimeState {
    return this.#time?.state() ?? 'unknown';
  }

  /** The latest correction that readers can see; undefined: none in this run. */
  get correctedByMs(): number | undefined {
    return this.#correctedByMs;
  }

  /** Called before an entry is given its id, which is `nextId`. */
  entering(nextId: number): void {
    if (!this.#watching || this.#time === undefined) return;
    if (Math.abs(this.#time.offsetMs() - this.#offsetMs) < stepMs) return;
    if (Math.abs(steadyOffset(this.#time) - this.#offsetMs) < stepMs) return;
    this.#begin(nextId);
    this.#settle();
  }

  /** Of a stamp that is made now and is no entry's. */
  stamping(nextId: number): StampedBy {
    this.entering(nextId);
    const { state, bootId, offsetMs } = this.segments.newest ?? { state: 'unmarked', bootId: '', offsetMs: 0 };
    return { state, bootId, offsetMs };
  }

  /** The newest entry as readers get it. */
  live(entry: LogEntry): LogEntry {
    return marked(entry, this.#mark);
  }

  /** An entry that readers got before, as they are to get it now. */
  remarked(entry: LogEntry): LogEntry {
    const { uncorrectedMs, clock: _, ...stamped } = entry;
    return marked({ ...stamped, timestampMs: uncorrectedMs ?? entry.timestampMs }, this.segments.markAt(entry.id));
  }

  /** The state of the time has changed. Returns whether stamps were corrected by it. */
  changed(nextId: number): boolean {
    this.#begin(nextId);
    return this.#settle();
  }

  /** The log was opened for the first time: ids move up by `offset`, and earlier segments are known. True: stamps were corrected. */
  loaded(stored: readonly Segment[], offset: number): boolean {
    const own = this.segments.all.map((one) => ({ ...one, firstId: one.firstId + offset }));
    const first = own[0];
    const before = stored.at(-1);
    // Only the service was restarted: the clock continues as it did.
    if (first !== undefined && before !== undefined && isSameClock(before, first)) own.shift();
    this.segments.replaceAll([...stored, ...own]);
    this.#unwritten = new Set(own.map(({ firstId }) => firstId));
    this.#loaded = true;
    return this.#settle();
  }

  /** Another file was begun, for entries from the id on: it has none of their segments. */
  replaced(fromId: number): void {
    const { all } = this.segments;
    const first = all.findLastIndex(({ firstId }) => firstId <= fromId);
    for (const { firstId } of all.slice(Math.max(0, first))) this.#unwritten.add(firstId);
  }

  /** What is to be written with entries up to `lastId`: a segment that holds none yet may still change. */
  due(lastId: number): Segment[] {
    if (this.#unwritten.size === 0) return [];
    return this.segments.all.filter(({ firstId }) => firstId <= lastId && this.#unwritten.has(firstId));
  }

  written(segments: readonly Segment[]): void {
    for (const segment of segments) {
      if (this.segments.all.includes(segment)) this.#unwritten.delete(segment.firstId);
    }
  }

  #begin(nextId: number): void {
    if (this.#time === undefined) return;
    const state = this.#time.state();
    const offsetMs = Math.round(steadyOffset(this.#time));
    const segment: Segment = { firstId: nextId, state, bootId: this.#time.bootId, offsetMs, correctionMs: undefined };
    this.segments.put(segment);
    this.#unwritten.add(nextId);
    this.#watching = state !== 'synced';
    this.#offsetMs = offsetMs;
    this.#mark = markOf(segment);
  }

  #settle(): boolean {
    // Before the log is open it is not known what this boot has been through.
    const settled = this.#time === undefined || !this.#loaded ? [] : this.segments.settle(this.#time.bootId);
    for (const segment of settled) {
      this.#unwritten.add(segment.firstId);
      const { clock, correctionMs } = markOf(segment);
      if (clock === 'corrected') this.#correctedByMs = correctionMs;
    }
    this.#mark = markOf(this.segments.newest);
    return settled.length > 0;
  }
}

function isSameClock(before: Segment, first: Segment): boolean {
  const same = before.bootId === first.bootId && before.state === first.state;
  return same && first.bootId !== '' && Math.abs(before.offsetMs - first.offsetMs) < stepMs;
}

/** The middle of three: the process may have been held up between the two clocks of one. */
function steadyOffset(time: TimeSource): number {
  const three = [time.offsetMs(), time.offsetMs(), time.offsetMs()];
  return three.sort((a, b) => a - b)[1] ?? 0;
}
