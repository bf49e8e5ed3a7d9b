/**
 * The serial log: ids are given here, at once; live readers get entries at once; storage follows in groups.
 * No call waits for the disk but store() and close().
 */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { type Clock, endsWithin, pause } from '../../shared/base/clock.ts';
import { LinesideError, messageOf } from '../../shared/base/errors.ts';
import { DamagedError } from '../../shared/base/log-block.ts';
import type { Logger } from '../../shared/base/logger.ts';
import { FailureLog, Loop } from '../../shared/base/loop.ts';
import { BackgroundCheck } from '../../shared/storage/background-check.ts';
import { type Direction, type LogEntry, type LogGap, type NewEntry, shownGaps } from './entry.ts';
import { notStored } from './failures.ts';
import { GroupCommit } from './group-commit.ts';
import type {
  EventKind,
  LineRecorder,
  LogRun,
  LogSnapshot,
  ReaderEvents,
  ReadRequest,
  RecordedEvent,
  TimeSource,
} from './log-api.ts';
import { LogSearch } from './log-search.ts';
import { Pressure } from './pending-queue.ts';
import { Reader } from './reader.ts';
import { Readers } from './readers.ts';
import { correct, TimeMarks } from './segments.ts';
import { logFileName, walLimitBytes } from './store/schema.ts';
import { type Appended, type EventsRequest, type Opened, StoreClient, type StoreSizes } from './store-client.ts';
import { Tail } from './tail.ts';

export interface SerialLogOptions {
  /** Holds log.db. */
  readonly dir: string;
  readonly maxBytes: number;
  readonly maxAgeDays: number;
  readonly commitMs: number;
  readonly queueBytes: number;
  readonly tailBytes: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** undefined: entries are not marked. */
  readonly time?: TimeSource;
}

/** What may change while the log is open. */
type LogLimits = Pick<SerialLogOptions, 'maxBytes' | 'maxAgeDays' | 'commitMs'>;

/** The log as the API sees it. */
export type Log = Pick<
  SerialLog,
  'record' | 'store' | 'event' | 'events' | 'read' | 'bootAt' | 'logId' | 'readers' | 'status' | 'collectGarbage'
> & { readonly searches: Pick<LogSearch, 'search' | 'histogram'> };

/** A disk that has not opened the log by then continues to open it in the background: the line matters more. */
const openMs = 5_000;
/** Of closing: storing what is pending, and readers taking what is in memory. */
const flushMs = 3_000;
const drainMs = 500;
const dayMs = 86_400_000;
/** How often the age of entries is checked: a thousandth of the shortest sensible age, a day. */
const ageCheckMs = 60_000;
/** A small view of a larger buffer would keep it in memory as long as the tail holds the entry. */
const slackBytes = 8 * 1024;
/** An error of a driver in words. */
const maxDetail = 1_000;

/** More waits for the card than one commit takes: a search waits too. */
const behindBytes = 1024 * 1024;
/** After a commit that leaves the write-ahead log due for a checkpoint, a search waits so long for the next commit, which begins it again. */
const walDueMs = 1_000;

const nothing: StoreSizes = {
  firstId: 0,
  lastId: 0,
  decidedId: 0,
  usedBytes: 0,
  fileBytes: 0,
  walBytes: 0,
  ceilingId: 0,
};

export async function openSerialLog(options: SerialLogOptions): Promise<SerialLog> {
  const log = new SerialLog(options, new StoreClient());
  await log.open();
  return log;
}

/** Everything here runs on the thread that reads the UART and never waits for the SD card. */
export class SerialLog implements LineRecorder {
  readonly #o: SerialLogOptions;
  readonly #store: StoreClient;
  #limits: LogLimits;
  readonly #pressure: Pressure;
  readonly #commit: GroupCommit;
  readonly #readers: Readers;
  readonly #marks: TimeMarks;
  readonly #retention: Loop;
  readonly searches: LogSearch;
  #check: BackgroundCheck | undefined;
  #logId: string = randomUUID();
  #nextId = 1;
  #sizes = nothing;
  #sizesAtMs = 0;
  #gaps: LogGap[] = [];
  #lostEntries = 0;
  #lostBytes = 0;
  #prunedEntries = 0;
  #setAside = '';
  #closing: Promise<void> | undefined;

  constructor(options: SerialLogOptions, store: StoreClient) {
    this.#o = options;
    this.#store = store;
    this.#limits = options;
    const { dir, queueBytes, clock, logger } = options;
    this.#pressure = new Pressure(clock, queueBytes);
    this.#marks = new TimeMarks(options.time);
    const report = (error: unknown): void => this.#commit.report(error);
    this.#commit = new GroupCommit({
      store,
      dir,
      limits: () => this.#limits,
      queueBytes,
      pressure: this.#pressure,
      clock,
      logger,
      headId: () => this.#nextId - 1,
      onOpened: (opened) => this.#opened(opened),
      onCommitted: (sizes, gaps) => this.#committed(sizes, gaps),
      onLost: (bytes) => {
        this.#lostEntries++;
        this.#lostBytes += bytes;
      },
      segments: this.#marks,
    });
    this.#readers = new Readers(new Tail(options.tailBytes), this.#marks.segments, store, clock, report);
    options.time?.onChange(() => this.#timeChanged());
    this.searches = new LogSearch({
      dir,
      clock,
      logId: () => this.#logId,
      lastId: () => this.#sizes.decidedId,
      isBehind: () => this.#isBehind(),
    });
    const failures = new FailureLog(
      logger,
      'old log entries could not be removed',
      'old log entries are removed again',
    );
    this.#retention = new Loop({ pass: (signal) => this.#removeOld(signal), failures, clock });
    this.#retention.start(ageCheckMs);
  }

  /** Resolves when the log is open, or has failed to (it is tried again), or takes too long. */
  async open(): Promise<void> {
    await endsWithin(this.#o.clock, openMs, this.#commit.start());
  }

  get logId(): string {
    return this.#logId;
  }

  get pressed(): boolean {
    return this.#pressure.pressed;
  }

  onRelieved(call: () => void): void {
    this.#pressure.onRelieved(call);
  }

  /** Followers now. */
  get readers(): number {
    return this.#readers.count;
  }

  record(dir: Direction, timestampMs: number, data: Uint8Array, note = ''): void {
    if (this.#closing !== undefined) return;
    this.#commit.add(this.#enter({ dir, timestampMs, data, note }));
    this.#readers.wakeAll();
  }

  event(kind: EventKind, detail: string, by = ''): void {
    if (this.#closing !== undefined) return;
    const stamped = this.#marks.stamping(this.#nextId);
    const event = { afterId: this.#nextId - 1, kind, by, detail: detail.slice(0, maxDetail) };
    this.#commit.addEvent({ ...event, atMs: this.#o.clock.wallMs(), ...stamped });
  }

  /** Those that are stored, in the order of their ids. Rejects with NOT_READY. */
  async events(request: EventsRequest): Promise<RecordedEvent[]> {
    const stored = await this.#store.call('events', request).catch((error: unknown) => {
      this.#commit.report(error);
      throw new LinesideError('NOT_READY', `the log cannot be read now: ${messageOf(error)}`, { cause: error });
    });
    return stored.map(({ id, afterId, kind, by, detail, atMs, ...stamped }) => {
      const { clock, correctionMs } = this.#marks.segments.markOfStamp(stamped);
      return { id, afterEntryId: afterId, kind, by, detail, timestampMs: correct(atMs, correctionMs), clock };
    });
  }

  /** Stores one entry as given and resolves with it once it is committed (fsync done). Rejects with LOG_NOT_STORED: then it is not stored (but if fsync failed and the process is killed before the next good commit, it may appear after all). */
  store(entry: NewEntry): Promise<LogEntry> {
    if (this.#closing !== undefined) return Promise.reject(notStored('the log is closed'));
    const refusal = this.#commit.refusal;
    if (refusal !== '') return Promise.reject(notStored(refusal));
    const stored = this.#commit.addAndWait(this.#enter(entry));
    this.#readers.wakeAll();
    return stored;
  }

  /**
   * Reads the log as runs, in order, without a gap or repeat between stored and live. The subscription stands when
   * this returns (before the first run is asked for). A reader that falls behind reads on from storage and holds no
   * memory. Ends when the signal fires (normally), or throws LOG_LOST (entries it was still to get are gone;
   * the message has their number), SHUTTING_DOWN, or TOO_MANY: it took nothing while others waited for what it holds.
   */
  read(request: ReadRequest, signal: AbortSignal, events: ReaderEvents = {}): AsyncIterable<LogRun> {
    return new Reader(this.#readers, request, signal, events);
  }

  /** The boot of the machine in which an entry was stamped; '': not known (no time sync, an earlier version wrote it). */
  bootAt(id: number): string {
    return this.#marks.segments.bootAt(id);
  }

  status(): Promise<LogSnapshot> {
    const error = this.#commit.failure;
    const gaps = [...this.#gaps, ...this.#commit.pendingGaps]
      .slice(-shownGaps)
      .map((gap) => this.#marks.segments.marked(gap));
    const { correctedByMs } = this.#marks;
    const { firstId, lastId, usedBytes, fileBytes } = this.#sizes;
    return Promise.resolve({
      state: error === '' ? 'ok' : 'failing',
      error,
      logId: this.#logId,
      firstId,
      lastId,
      headId: this.#nextId - 1,
      usedBytes,
      fileBytes,
      maxBytes: this.#limits.maxBytes,
      pendingEntries: this.#commit.pendingEntries,
      pendingBytes: this.#commit.pendingBytes,
      lostEntries: this.#lostEntries,
      lostBytes: this.#lostBytes,
      gaps,
      prunedEntries: this.#prunedEntries,
      setAside: this.#setAside,
      commits: this.#commit.commits,
      readBudgetUsedBytes: this.#readers.budget.usedBytes,
      waitingReaders: this.#readers.budget.waitingReaders,
      stalledReaders: this.#readers.budget.stalledReaders,
      time: this.#marks.state,
      ...(correctedByMs !== undefined && { correctedByMs }),
    });
  }

  /** From now on. What is too much now is removed soon. */
  limit(limits: LogLimits): void {
    this.#limits = limits;
    this.#retention.wake();
  }

  /** Resolves when the log worker has answered; rejects if no worker runs at the moment. */
  async answers(): Promise<void> {
    try {
      await this.#store.answers();
    } catch (error) {
      // A dead worker is started again.
      this.#commit.report(error);
      throw error;
    }
  }

  /** Of the log worker, which keeps the pages of readers that left. Rejects if no worker runs. */
  collectGarbage(): Promise<void> {
    return this.#store.call('collectGarbage', undefined);
  }

  /** Stores what is pending, then ends every reader with SHUTTING_DOWN, then closes the file. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  /** Readers get it as it is marked now; what is stored is the stamp as it was made. */
  #enter(entry: NewEntry): LogEntry {
    const { data } = entry;
    this.#marks.entering(this.#nextId);
    const wasteful = data.buffer.byteLength > data.length + slackBytes;
    const entered = { ...entry, id: this.#nextId++, data: wasteful ? new Uint8Array(data) : data };
    const shown = this.#marks.live(entered);
    this.#readers.tail.push(shown);
    // One object for both where it can be: there are a megabyte's worth of them.
    return shown.uncorrectedMs === undefined ? shown : entered;
  }

  #timeChanged(): void {
    if (this.#closing !== undefined) return;
    if (this.#marks.changed(this.#nextId)) this.#corrected();
  }

  /** Readers of the tail get the corrected stamps from now on, and the file takes what they are corrected by. */
  #corrected(): void {
    const { correctedByMs } = this.#marks;
    this.#readers.tail.remark((entry) => this.#marks.remarked(entry));
    this.#commit.storeCorrection();
    if (correctedByMs === undefined) return;
    this.#o.logger.info('the time is known: entries of this boot are shown with corrected times', {
      corrected_by_s: Math.round(correctedByMs / 1000),
    });
  }

  #opened(opened: Opened): void {
    if (opened.setAsideReason !== '') {
      const { setAside, setAsideReason: found } = opened;
      if (setAside !== '') this.#setAside = setAside;
      this.#o.logger.error('the log file cannot be used any more: a new log was begun', {
        found,
        set_aside: setAside || undefined,
      });
    }
    if (!this.#readers.opened) {
      this.#nextId += opened.nextId - 1;
      this.#readers.rebase(opened.nextId - 1);
      this.#readers.opened = true;
      if (this.#marks.loaded(opened.segments, opened.nextId - 1)) this.#corrected();
    } else if (opened.logId !== this.#logId) {
      this.#readers.replacedTo = this.#readers.decidedId;
      this.#marks.replaced(opened.decidedId + 1);
    }
    this.#logId = opened.logId;
    this.#gaps = [...opened.gaps];
    this.#lostEntries = opened.lostEntries + sum(this.#commit.pendingGaps, 'entries');
    this.#lostBytes = opened.lostBytes + sum(this.#commit.pendingGaps, 'bytes');
    this.#look(opened);
    if (opened.unchecked && this.#check === undefined) this.#startCheck();
  }

  #startCheck(): void {
    const { dir, clock, logger } = this.#o;
    const onDamage = (found: string): void => this.#commit.report(new DamagedError(found), true);
    this.#check = new BackgroundCheck({ path: join(dir, logFileName), clock, logger, onDamage });
  }

  #committed(sizes: Appended, gaps: readonly LogGap[]): void {
    if (gaps.length > 0) this.#gaps = [...this.#gaps, ...gaps].slice(-shownGaps);
    this.#pruned(sizes);
    this.#look(sizes);
  }

  #look(sizes: StoreSizes): void {
    this.#sized(sizes);
    this.#readers.decidedId = sizes.decidedId;
    this.#readers.wakeAll();
  }

  /**
   * Removes entries that are too old, and after the limit was lowered those that are too many (what new entries push out goes
   * with their own commit): one small step at a time, each a call of its own so that a commit waits for one step at most.
   * Age is the time the service has run since an entry was stored, which no clock jump can touch: the wall clock of a box
   * without a battery is wrong for weeks and then right, and one such step must not empty the log. A box that is switched off
   * keeps its entries longer by that time.
   */
  async #removeOld(signal: AbortSignal): Promise<number> {
    try {
      for (let more = true; more && !signal.aborted; ) {
        const { maxBytes, maxAgeDays } = this.#limits;
        const uptimeMs = this.#o.clock.monoMs();
        const request = { maxBytes, maxAgeMs: maxAgeDays * dayMs, uptimeMs };
        // It may put a smaller file in the place of this one, which no reader may have open then.
        const pruned = await this.searches.betweenSteps(() => this.#store.call('prune', request));
        this.#pruned(pruned);
        more = pruned.more;
      }
    } catch (error) {
      if (!signal.aborted) this.#commit.report(error);
      throw error;
    }
    return ageCheckMs;
  }

  #pruned(pruned: Appended): void {
    this.#prunedEntries += pruned.entries;
    if (pruned.entries > 0) this.#marks.segments.dropBefore(pruned.firstId);
    this.#sized(pruned);
  }

  #sized(sizes: StoreSizes): void {
    this.#sizes = sizes;
    this.#sizesAtMs = this.#o.clock.monoMs();
  }

  /** A search would hold up the log worker: entries wait for the card, or SQLite can begin its write-ahead log again without a reader. */
  #isBehind(): boolean {
    if (this.#pressure.pressed || this.#commit.pendingBytes > behindBytes) return true;
    return this.#sizes.walBytes >= walLimitBytes && this.#o.clock.monoMs() - this.#sizesAtMs < walDueMs;
  }

  async #close(): Promise<void> {
    await endsWithin(this.#o.clock, flushMs, this.#commit.flush());
    const { pendingEntries } = this.#commit;
    if (pendingEntries > 0)
      this.#o.logger.error('entries could not be stored before the end', { entries: pendingEntries });
    // Not awaited: a step may wait for a disk that hangs.
    void this.#retention.stop();
    await Promise.all([this.searches.close(), this.#endReaders()]);
    this.#commit.close();
    await this.#check?.close();
    try {
      await this.#store.close({ headId: this.#nextId - 1, uptimeMs: this.#o.clock.monoMs() });
    } catch (error) {
      this.#o.logger.warn('the log was not closed cleanly; nothing stored is lost', { error: messageOf(error) });
    }
  }

  /** Readers that keep up take what is in memory; those that do not are ended. */
  async #endReaders(): Promise<void> {
    this.#readers.closing = true;
    this.#readers.wakeAll();
    const until = this.#o.clock.monoMs() + drainMs;
    while (this.#readers.count > 0 && this.#o.clock.monoMs() < until) await pause(this.#o.clock, 10);
    this.#readers.closed = true;
    this.#readers.wakeAll();
  }
}

function sum(gaps: readonly LogGap[], key: 'entries' | 'bytes'): number {
  return gaps.reduce((total, gap) => total + gap[key], 0);
}
