/**
 * Marks each entry with what the box knows of the time when the entry is stamped, and corrects earlier entries of this boot
 * once the time is known. A new segment begins with the service, when the state of the time changes, and when an operator
 * sets a clock that is not known to be right. Each entry checks for the last, so its stamp belongs to its own segment.
 * Segments are stored with the first entries that they hold, corrections on their own.
 */
import type { LogEntry } from './entry.ts';
import type { TimeSource, TimeState } from './log-api.ts';
import { type Mark, marked, markOf, type Segment, Segments, stepMs } from './segments.ts';

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
