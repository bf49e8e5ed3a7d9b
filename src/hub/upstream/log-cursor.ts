/**
 * The position in the line's log: reads the entries stored above it and hands out batches. A log that was replaced is sent to its
 * end before the next one begins.
 */
import type { Clock } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import type { LineLog, LineState } from './line-log.ts';
import { Lag, LogPositions } from './log-positions.ts';
import type { Situation } from './next-step.ts';
import { type Packed, Packer } from './packer.ts';
import type { Transport } from './transport.ts';
import type { UpstreamStats } from './upstream-stats.ts';

/** The line is on the same machine: a status call takes a millisecond. */
const REFRESH_MS = 1_000;
const MIN_REFRESH_MS = 100;
/** A restart of the line is shorter than this and is not logged. */
const AWAY_MS = 15_000;

export interface LogCursorOptions {
  readonly transport: Pick<Transport, 'name'>;
  readonly line: LineLog;
  readonly lingerMs: number;
  readonly stats: UpstreamStats;
  readonly clock: Clock;
}

export class LogCursor {
  readonly #o: LogCursorOptions;
  readonly #lag = new Lag();
  /** Set from what was saved before the first refresh. */
  positions = new LogPositions([]);
  #packer: Packer | undefined;
  /** Handed out, and not acknowledged by the remote yet; the oldest first. */
  #out: Packed[] = [];
  #now: LineState | undefined;
  /** Why the line does not answer; '': it does. */
  trouble = 'not asked yet';
  /** Why the last read of the log failed; the line may answer status calls all the same. */
  #unread = '';
  #answeredMs: number;
  #refreshAtMs = 0;
  /** The line had no more entries: the next read follows the next refresh. */
  #dry = false;
  #readSinceMs: number | undefined;
  /** What has changed since the state was saved: the position, or only the end of the log. */
  unsaved: 'nothing' | 'log end' | 'position' = 'nothing';
  /** The log that was reported to end before what was sent of it; '': none. */
  #wentBack = '';

  constructor(options: LogCursorOptions) {
    this.#o = options;
    this.#answeredMs = options.clock.monoMs();
  }

  /** The log is the one that is sent now, and its clock is set. */
  isClockSet(logId: string): boolean {
    return this.#now?.clockSet === true && this.#now.logId === logId && this.positions.current?.logId === logId;
  }

  refreshInMs(nowMs: number): number {
    return this.#refreshAtMs - nowMs;
  }

  /** Milliseconds until what was read is sent, even if it fills no batch. */
  lingerMs(nowMs: number): number {
    return this.#readSinceMs === undefined ? 0 : this.#readSinceMs + this.#o.lingerMs - nowMs;
  }

  get hasMore(): boolean {
    const packer = this.#packer;
    const now = this.#now;
    return !this.#dry && packer !== undefined && now?.logId === packer.logId && packer.readTo < now.lastId;
  }

  readState(enoughBytes: number): Situation['read'] {
    const packer = this.#packer;
    if (packer === undefined || packer.isEmpty) return 'nothing';
    return packer.bytes >= enoughBytes || this.positions.isReplaced ? 'enough' : 'some';
  }

  ageMs(nowMs: number): number {
    const newest = this.positions.all.at(-1);
    return newest === undefined ? 0 : this.#lag.ageMs(newest.afterId, nowMs);
  }

  async refresh(signal: AbortSignal): Promise<void> {
    const { line, lingerMs, clock, stats } = this.#o;
    try {
      const now = await line.now(signal);
      this.trouble = '';
      if (now.lastId !== this.#now?.lastId && this.unsaved === 'nothing') this.unsaved = 'log end';
      this.#now = now;
      this.#dry = false;
      const seen = this.positions.seen(now);
      if (seen !== 'known') this.unsaved = 'position';
      if (seen === 'another') stats.replaced(now.logId);
      if (now.firstId > 0) this.#lag.seen(now.logId, now.lastId, clock.monoMs());
      this.#followRestoredCopy(now);
      this.#follow();
    } catch (error) {
      this.trouble = messageOf(error);
    }
    this.#report(signal);
    this.#refreshAtMs = clock.monoMs() + Math.max(MIN_REFRESH_MS, Math.min(REFRESH_MS, lingerMs));
  }

  async read(enoughBytes: number, signal: AbortSignal): Promise<void> {
    const packer = this.#packer;
    if (packer === undefined) return;
    const { line, clock } = this.#o;
    const before = packer.readTo;
    const isRead = await this.asked(signal, async () => {
      const result = await line.read(packer.logId, before, enoughBytes, signal);
      if (result.kind === 'read') for (const batch of result.batches) packer.add(batch);
      if (result.kind === 'overtaken') await this.#overtaken(packer, signal);
      return true;
    });
    if (isRead === undefined) return;
    if (packer.readTo === before) this.#dry = true;
    if (!packer.isEmpty) this.#readSinceMs ??= clock.monoMs();
  }

  /** A read of the log; undefined: it failed, and is repeated after the next refresh. */
  async asked<T>(signal: AbortSignal, ask: () => Promise<T>): Promise<T | undefined> {
    try {
      const answer = await ask();
      this.#unread = '';
      return answer;
    } catch (error) {
      this.#unread = messageOf(error);
      this.trouble = this.#unread;
      this.#report(signal);
      return undefined;
    }
  }

  /** The next batch; undefined: nothing was read. */
  take(maxBytes: number): Packed | undefined {
    const packed = this.#packer?.take(maxBytes);
    this.#readSinceMs = this.#packer?.isEmpty === false ? this.#o.clock.monoMs() : undefined;
    if (packed !== undefined) this.#out.push(packed);
    return packed;
  }

  /** A batch without entries and gaps, for corrections; undefined: no log is being sent yet. */
  emptyBatch(): Packed | undefined {
    const { current } = this.positions;
    if (current === undefined) return undefined;
    const { logId, afterId } = current;
    const range = { logId, bootId: '', afterId, throughId: afterId };
    return { ...range, items: [], gaps: [], entries: 0, bytes: 0, lineBytes: 0 };
  }

  /** The batch, which was handed out last, can never be sent as it is: it is handed out again in parts. */
  cut(packed: Packed, reason: string): void {
    this.#out.pop();
    this.#packer?.cut(packed, reason);
    this.#readSinceMs = Number.NEGATIVE_INFINITY;
  }

  /** What was handed out and is not acknowledged is handed out again; `but`: all but the oldest. */
  again(but?: Packed): void {
    const back = this.#out.filter((one) => one !== but);
    for (const packed of back.reverse()) this.#packer?.putBack(packed, packed.items);
    if (back.length > 0) this.#readSinceMs = Number.NEGATIVE_INFINITY;
    this.#out = this.#out.filter((one) => one === but);
  }

  /** The remote has the batch, the oldest of those handed out or one without entries. */
  acknowledged({ throughId }: Packed): void {
    if (this.#out[0]?.throughId === throughId) this.#out.shift();
    this.positions.moved(throughId);
    this.unsaved = 'position';
    this.#follow();
  }

  /** The remote says where to resume. True: at another position. */
  resumeAt(position: number): boolean {
    const { current } = this.positions;
    const at = this.#out[0]?.afterId ?? current?.afterId;
    if (current === undefined || at === undefined || position === at) return false;
    this.#o.stats.moved(at, position);
    this.positions.moved(position);
    this.unsaved = 'position';
    this.#begin(current.logId, position);
    this.#follow();
    return true;
  }

  #report(signal: AbortSignal): void {
    const { clock, stats } = this.#o;
    const nowMs = clock.monoMs();
    const trouble = this.trouble || this.#unread;
    if (trouble === '') {
      this.#answeredMs = nowMs;
      stats.line.recovered();
    } else if (nowMs - this.#answeredMs >= AWAY_MS && !signal.aborted) stats.line.failed(trouble);
  }

  /**
   * An earlier copy of the log was restored, which reuses ids. A reader that distinguishes entries by their ids may take
   * the new ones for the old: a collector does, so that it gets them from where they differ; to Kafka all of them go.
   */
  #followRestoredCopy({ logId, headId }: LineState): void {
    const positions = this.positions;
    const { current } = positions;
    if (current?.logId !== logId || positions.isReplaced || current.afterId <= headId || this.#out.length > 0) return;
    if (this.#wentBack !== logId) this.#o.stats.wentBack(logId, headId, current.afterId);
    this.#wentBack = logId;
    if (this.#o.transport.name === 'collector') return;
    positions.wentBack(headId);
    this.unsaved = 'position';
    this.#begin(logId, headId);
  }

  async #overtaken(packer: Packer, signal: AbortSignal): Promise<void> {
    const { logId, firstId } = await this.#o.line.now(signal);
    if (logId !== packer.logId) return;
    packer.overtaken(firstId - 1, 'the outage was longer than the log reaches back');
  }

  /** Follows the log that is sent now: to its end if it was replaced, then the next one. */
  #follow(): void {
    const positions = this.positions;
    for (;;) {
      const { current } = positions;
      if (current === undefined) return;
      if (this.#packer?.logId !== current.logId) this.#begin(current.logId, current.afterId);
      if (!positions.isReplaced) return;
      this.#packer?.replaced(current.lastId, 'the log was replaced by another');
      if (this.#packer?.isEmpty !== true || this.#out.length > 0) return;
      positions.next();
      this.unsaved = 'position';
    }
  }

  #begin(logId: string, afterId: number): void {
    this.#packer = new Packer(logId, afterId);
    this.#out = [];
    this.#readSinceMs = undefined;
    this.#dry = false;
  }
}
