/**
 * One reader: a cursor that takes from the live tail while its next entry is there, else from the stored log, one page
 * at a time and only when asked. The seam is exact because ids are: the next run begins after the last id that was checked.
 */
import { LinesideError, messageOf } from '../../shared/base/errors.ts';
import type { Batch } from '../../shared/base/log-block.ts';
import { type LogEntry, type LogGap, lostAfter } from './entry.ts';
import type { LogRun, ReaderEvents, ReadRequest } from './log-api.ts';
import { type Filter, filtersAnything, lastIdOf, matcher, maxBlockBytes, unpack } from './packed.ts';
import { chargeOf, READER_ALLOWANCE_BYTES, type Readers, STALLED_MS, type Wakeable } from './readers.ts';
import type { Page } from './store-client.ts';
import { runBytes, runEntries } from './tail.ts';

/** What a page may take at most: the rest of small entries, then the largest. */
const LARGEST_CHARGE = chargeOf(READER_ALLOWANCE_BYTES + 1024 * 1024);

/** Decoded entries of all readers together: as many as a young generation of 2 MB holds, or the old one fills with garbage. */
const DECODED_ENTRIES = 4_096;
const MIN_RUN_ENTRIES = 32;

interface Rest {
  readonly batch: Batch;
  readonly gaps: readonly LogGap[];
  readonly upTo: number;
}

const done: IteratorResult<LogRun> = { done: true, value: undefined };

export class Reader implements AsyncIterableIterator<LogRun>, Wakeable {
  readonly #readers: Readers;
  readonly #signal: AbortSignal;
  readonly #events: ReaderEvents;
  readonly #filter: Filter;
  /** undefined: the filter takes every entry. */
  readonly #matches: ((entry: LogEntry) => boolean) | undefined;
  #cursor: number;
  /** Last id to read. */
  #endId: number;
  /** What is lost after this id is this reader's loss; before, history. */
  #startHead: number;
  /** Entries still to deliver. */
  #remaining: number;
  /** It wants what there is: what retention removed before its first page is no loss. */
  #fresh: boolean;
  /** It reads what is stored, and not the tail. */
  readonly #storedOnly: boolean;
  readonly #asStored: boolean;
  /** What is stored after another file took the place of this log's is another log's. */
  readonly #replacedTo: number;
  /** The cursor counts from ids handed out before the log was known. */
  readonly #relative: boolean;
  /** Still to find where the last `n` begin. */
  #lastWanted: number | undefined;
  /** A page of the store of which runs are still to be made. */
  #page: Rest | undefined;
  /** What the readers' budget was charged for the page, or for the run that was handed out. */
  #charged = 0;
  #failure: LinesideError | undefined;
  #isStalled = false;
  #ended = false;
  #interrupt: (() => void) | undefined;
  readonly #onAbort = (): void => this.#end();

  constructor(readers: Readers, request: ReadRequest, signal: AbortSignal, events: ReaderEvents) {
    this.#readers = readers;
    this.#signal = signal;
    this.#events = events;
    const { dir, sinceMs, untilMs } = request;
    this.#filter = { dir, sinceMs, untilMs };
    this.#matches = filtersAnything(this.#filter) ? matcher(this.#filter) : undefined;
    const head = readers.tail.headId;
    this.#startHead = head;
    this.#storedOnly = request.storedOnly === true;
    this.#asStored = request.asStored === true;
    this.#replacedTo = readers.replacedTo;
    const end = this.#storedOnly ? readers.decidedId : head;
    this.#endId = request.follow ? Number.POSITIVE_INFINITY : end;
    this.#cursor = typeof request.after === 'number' ? request.after : request.after === 'live' ? head : 0;
    this.#fresh = (request.after === 0 && !this.#storedOnly) || request.after === 'last';
    this.#relative = request.after === 'live' || this.#fresh;
    this.#lastWanted = request.after === 'last' ? (request.limit ?? 0) : undefined;
    this.#remaining = request.after === 'last' ? Number.POSITIVE_INFINITY : (request.limit ?? Number.POSITIVE_INFINITY);
    readers.join(this);
    signal.addEventListener('abort', this.#onAbort, { once: true });
    if (signal.aborted) this.#end();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<LogRun>> {
    if (this.#isStalled) throw stalled();
    this.#readers.budget.taken(this);
    try {
      const run = await this.#produce();
      if (run !== undefined && !this.#ended) {
        if (this.#charged > 0) this.#readers.budget.handedOut(this);
        return { done: false, value: run };
      }
    } catch (error) {
      if (!this.#ended) {
        this.#end();
        throw error;
      }
    }
    this.#end();
    return done;
  }

  /** Ends at once, also while a call of next() is waiting. */
  return(): Promise<IteratorResult<LogRun>> {
    this.#end();
    return Promise.resolve(done);
  }

  wake(): void {
    this.#interrupt?.();
  }

  endStalled(): void {
    this.#isStalled = true;
    this.#events.stalled?.();
    this.#end();
  }

  rebase(offset: number): void {
    if (this.#relative && !this.#fresh) this.#cursor += offset;
    this.#startHead += offset;
    this.#endId += offset;
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#page = undefined;
    this.#readers.budget.taken(this);
    this.#charge(0);
    this.#readers.leave(this);
    this.#signal.removeEventListener('abort', this.#onAbort);
    this.wake();
  }

  /** The next run; undefined at the end. */
  async #produce(): Promise<LogRun | undefined> {
    // The caller asks for the next run: it no longer holds the one before.
    if (this.#page === undefined) this.#charge(0);
    while (!this.#ended) {
      if (this.#page === undefined) {
        if (this.#failure !== undefined) throw this.#failure;
        if (this.#lastWanted !== undefined) await this.#findLast(this.#lastWanted);
      }
      if (this.#cursor >= this.#endId || this.#remaining <= 0) return undefined;
      if (this.#readers.closed) throw shuttingDown();
      const run = this.#page === undefined ? await this.#nextRun() : this.#fromRest(this.#page);
      if (run !== undefined && (run.entries.length > 0 || run.gaps.length > 0 || run.stored !== undefined)) return run;
    }
    return undefined;
  }

  /** undefined: try again. */
  #nextRun(): LogRun | Promise<LogRun | undefined> {
    const entries = this.#storedOnly ? undefined : this.#readers.tail.after(this.#cursor);
    if (entries === undefined || entries.length === 0) return this.#fromStore();
    const charge = chargeOf(entries.reduce((sum, { data }) => sum + data.length, 0));
    if (!this.#charge(charge)) return this.#afford(charge);
    return this.#advance({ entries, gaps: [], nextAfterId: entries.at(-1)?.id ?? this.#cursor, live: true });
  }

  async #fromStore(): Promise<LogRun | undefined> {
    const { decidedId, opened, closing } = this.#readers;
    const caughtUp = this.#cursor >= this.#readers.tail.headId;
    if (caughtUp && closing) throw shuttingDown();
    if (caughtUp || !opened || this.#cursor >= decidedId) {
      this.#charge(0);
      if (caughtUp) this.#events.caughtUp?.();
      await this.#interruptible(undefined);
      return undefined;
    }
    if (closing) throw shuttingDown();
    // How large the page is shows when it is there. Without the charge for the largest: blocks that hold no large entry.
    const mostBytes = this.#charge(LARGEST_CHARGE) ? undefined : maxBlockBytes;
    const page = await this.#interruptible(this.#read(mostBytes));
    if (page?.isTooLarge) return this.#afford(LARGEST_CHARGE);
    this.#charge(page === undefined ? 0 : chargeOf(page.batch.buffer.byteLength));
    if (page !== undefined) return this.#fromPage(page);
    // Damage or a dead worker: the next change is the repaired store.
    if (!this.#ended) await this.#interruptible(undefined);
    return undefined;
  }

  async #read(mostBytes: number | undefined): Promise<Page | undefined> {
    const range = { after: this.#cursor, upTo: this.#endId, mostBytes };
    try {
      return await this.#readers.page({ ...range, filter: this.#filter, fresh: this.#fresh, asStored: this.#asStored });
    } catch (error) {
      throw new LinesideError('INTERNAL', `the log cannot be read: ${messageOf(error)}`, { cause: error });
    }
  }

  #fromPage(page: Page): LogRun | undefined {
    const { replacedTo } = this.#readers;
    if (!this.#fresh && !this.#storedOnly && this.#cursor < replacedTo) {
      const [from, count] = [this.#cursor + 1, replacedTo - this.#cursor];
      this.#failure = lostEntries(
        `up to ${count} entries (ids ${from} to ${replacedTo}) were in a log file that was damaged, removed or replaced`,
        'Read the new log from its start; `lineside status` names the file that was set aside.',
      );
      return undefined;
    }
    if (this.#storedOnly && replacedTo !== this.#replacedTo) {
      this.#endId = this.#cursor;
      return undefined;
    }
    if (page.removedEntries > 0) {
      const ids = `ids ${this.#cursor + 1} to ${page.removedTo}`;
      this.#failure = lostEntries(
        `${page.removedEntries} entries (${ids}) were removed by retention before this reader read them`,
        'Read from the start, read faster, or raise log.max_bytes.',
      );
      return undefined;
    }
    const { segments } = this.#readers;
    const gaps = page.gaps.map((gap) => segments.marked(gap));
    const lost = gaps.find((gap) => gap.entries > 0 && gap.lastId > this.#startHead);
    const upTo = Math.min(this.#endId, lost === undefined ? page.nextAfterId : lost.firstId - 1);
    const historic = gaps.filter((gap) => gap !== lost && gap.firstId <= upTo);
    if (lost !== undefined) this.#failure = notStored(lost, Math.max(this.#cursor, this.#startHead));
    const rest = { batch: page.batch, gaps: historic, upTo: Math.max(this.#cursor, upTo) };
    return this.#asStored ? this.#storedRun(rest) : this.#fromRest(rest);
  }

  #storedRun({ batch, gaps, upTo }: Rest): LogRun {
    const stamps = this.#readers.segments.stamps(batch.blocks[0]?.firstId ?? 0, lastIdOf(batch));
    const run = this.#advance({ entries: [], gaps, nextAfterId: upTo, live: false });
    return batch.blocks.length === 0 ? run : { ...run, stored: { batch, stamps } };
  }

  /** One run of a page: decoded entries take many times the memory of stored ones. */
  #fromRest({ batch, gaps, upTo }: Rest): LogRun {
    const maxEntries = Math.max(
      MIN_RUN_ENTRIES,
      Math.min(runEntries, Math.floor(DECODED_ENTRIES / this.#readers.count)),
    );
    const wanted = { after: this.#cursor, upTo, maxEntries, maxBytes: runBytes };
    const entries = unpack(batch, wanted, (id) => this.#readers.segments.markAt(id));
    const last = entries.at(-1)?.id;
    const whole = last === undefined || last >= lastIdOf(batch) || last >= upTo;
    const through = whole ? upTo : last;
    this.#page = whole ? undefined : { batch, gaps: gaps.filter(({ firstId }) => firstId > through), upTo };
    const own = whole ? gaps : gaps.filter(({ firstId }) => firstId <= through);
    return this.#advance({ entries, gaps: own, nextAfterId: through, live: false });
  }

  /** True: the budget is charged this, whatever it was charged before. False: it has not enough, nothing is charged. */
  #charge(bytes: number): boolean {
    const { budget } = this.#readers;
    if (bytes <= this.#charged) {
      budget.give(this.#charged - bytes);
      this.#charged = bytes;
      return true;
    }
    budget.give(this.#charged);
    const taken = budget.take(bytes);
    this.#charged = taken ? bytes : 0;
    return taken;
  }

  /** Waits for its turn, holding nothing; what there is to read may have changed then. */
  async #afford(bytes: number): Promise<undefined> {
    let cancel = (): void => {};
    const granted = new Promise<void>((resolve) => {
      cancel = this.#readers.budget.wait(bytes, () => {
        this.#charged = bytes;
        resolve();
      });
    });
    await this.#interruptible(granted);
    cancel();
    if (this.#ended) this.#charge(0);
  }

  /** Filters, cuts at the end and the limit, and moves the cursor. */
  #advance({ entries, gaps, nextAfterId, live }: LogRun): LogRun {
    let chosen = entries;
    if ((entries.at(-1)?.id ?? 0) > this.#endId) chosen = chosen.filter(({ id }) => id <= this.#endId);
    if (this.#matches !== undefined) chosen = chosen.filter(this.#matches);
    let cursor = Math.min(nextAfterId, this.#endId);
    if (chosen.length > this.#remaining) {
      chosen = chosen.slice(0, this.#remaining);
      cursor = chosen.at(-1)?.id ?? cursor;
    }
    this.#remaining -= chosen.length;
    this.#cursor = cursor;
    this.#fresh = false;
    return { entries: chosen, gaps, nextAfterId: cursor, live };
  }

  /** The last `wanted` entries begin in the tail, among those that wait to be stored, or in the stored log. */
  async #findLast(wanted: number): Promise<void> {
    this.#lastWanted = undefined;
    const { tail, decidedId, opened } = this.#readers;
    const head = this.#startHead;
    const liveFrom = Math.min(tail.firstId, Math.max(decidedId + 1, 1));
    const live = Math.max(0, head - liveFrom + 1);
    if (wanted <= live || !opened) {
      this.#cursor = Math.max(head - wanted, opened ? 0 : tail.firstId - 1);
      return;
    }
    const start = await this.#interruptible(this.#readers.startOfLast(wanted - live, liveFrom - 1));
    this.#cursor = start ?? head;
  }

  /** Awaits something, or with undefined the next change; ends early when the reader ends. */
  #interruptible<T>(promise: Promise<T> | undefined): Promise<T | undefined> {
    if (this.#ended) return Promise.resolve(undefined);
    return new Promise<T | undefined>((resolve, reject) => {
      this.#interrupt = () => {
        this.#interrupt = undefined;
        resolve(undefined);
      };
      if (promise === undefined) this.#readers.wait(this);
      else promise.then(resolve, reject);
    });
  }
}

function lostEntries(what: string, hint: string): LinesideError {
  return new LinesideError('LOG_LOST', `DATA_LOSS: ${what}`, { hint });
}

function notStored(gap: LogGap, after: number): LinesideError {
  const from = Math.max(gap.firstId, after + 1);
  return lostEntries(
    `${lostAfter(gap, after)} entries (ids ${from} to ${gap.lastId}) could not be stored: ${gap.reason}`,
    'Read on after these ids; see `lineside status`.',
  );
}

function stalled(): LinesideError {
  return new LinesideError('TOO_MANY', `the reader took nothing for ${STALLED_MS / 1_000} s while others waited`, {
    hint: 'Connect again and resume after the last id.',
  });
}

function shuttingDown(): LinesideError {
  return new LinesideError('SHUTTING_DOWN', 'the service is shutting down', { hint: 'Connect again and resume.' });
}
