/**
 * Searches of the stored log. They run in a thread of their own, in steps of some milliseconds; between two steps they wait while the
 * log worker has work that they would hold up: entries that wait for the card, or a write-ahead log that is to be begun again.
 */
import { type Clock, pause, type Timer } from '../../shared/base/clock.ts';
import { LinesideError, messageOf, systemCode } from '../../shared/base/errors.ts';
import { besideModule, WorkerHost } from '../../shared/storage/worker-host.ts';
import type { Histogram, HistogramQuery } from './search/histogram-job.ts';
import type { SearchMatch, SearchQuery, StepResult } from './search/search-job.ts';

/** The calls of the worker. */
export interface SearchCalls {
  beginSearch: { request: Begin<SearchQuery>; response: void };
  stepSearch: { request: void; response: StepResult };
  endSearch: { request: void; response: void };
  beginHistogram: { request: Begin<HistogramQuery>; response: void };
  /** undefined: there is more to do. */
  stepHistogram: { request: void; response: Histogram | undefined };
}

interface Begin<Q> {
  readonly dir: string;
  readonly logId: string;
  readonly query: Q;
}

export type SearchRequest = Omit<SearchQuery, 'upTo'>;
export type HistogramRequest = Omit<HistogramQuery, 'upTo'>;

export interface SearchPart {
  readonly matches: readonly SearchMatch[];
  /** Since the search began. */
  readonly entries: number;
  readonly bytes: number;
  /** Every match that ends in an entry up to this one has come: where to resume. */
  readonly throughId: number;
  /** The last entry that is searched. */
  readonly upTo: number;
  /** Set in the last part. */
  readonly end?: { readonly reason: 'complete' | 'limit' | 'time' | 'failed'; readonly error: string };
}

/** What the log tells its searches. */
export interface SearchedLog {
  readonly dir: string;
  readonly clock: Clock;
  readonly logId: () => string;
  /** The last entry that is stored. */
  readonly lastId: () => number;
  /** The log worker has work that a search would hold up. */
  readonly isBehind: () => boolean;
}

/** A search ends after so long, with the place where the next one begins. */
const SEARCH_MS = 60_000;
const HISTOGRAM_MS = 10_000;
const behindMs = 10;
/** Histograms that wait for the one before. */
const maxWaiting = 4;
/** The thread and its memory stay for the next search. */
const idleMs = 30_000;
const terminateMs = 500;
/** Rows and bytes are outside of it; an expression that takes more ends the thread, and the search. */
const memoryLimits = { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: 64 };

export class LogSearch {
  readonly #log: SearchedLog;
  #host: WorkerHost<SearchCalls> | undefined;
  #idle: Timer | undefined;
  #isSearching = false;
  /** The step under way, and the work of the log that no step may overlap. */
  #turn: Promise<unknown> = Promise.resolve();
  #histograms: Promise<unknown> = Promise.resolve();
  #waiting = 0;
  #closed = false;

  constructor(log: SearchedLog) {
    this.#log = log;
  }

  /**
   * The first part comes when the search has begun. Throws INVALID_ARGUMENT, TOO_MANY while another search runs, and NOT_READY; a later
   * failure is the end of the last part. Ends when the signal fires.
   */
  async *search(request: SearchRequest, signal: AbortSignal): AsyncGenerator<SearchPart, void, undefined> {
    if (this.#isSearching) {
      throw new LinesideError('TOO_MANY', 'another search of the log is running', {
        hint: 'wait until it has ended (after 60 s at most), or end it',
      });
    }
    this.#isSearching = true;
    try {
      yield* this.#parts(request, signal);
    } finally {
      this.#isSearching = false;
      if (this.#host?.alive === true) void this.#host.call('endSearch', undefined).catch(() => {});
      this.#armIdle();
    }
  }

  /** Throws INVALID_ARGUMENT, TOO_MANY and NOT_READY. */
  async histogram(request: HistogramRequest): Promise<Histogram> {
    if (this.#waiting >= maxWaiting)
      throw new LinesideError('TOO_MANY', `${maxWaiting} histograms are being made already`);
    this.#waiting++;
    const made = this.#histograms.then(() => this.#makeHistogram(request));
    this.#histograms = made.catch(() => {});
    try {
      return await made;
    } finally {
      this.#waiting--;
      this.#armIdle();
    }
  }

  /** Runs work of the log worker that no step may overlap: between two steps. */
  async betweenSteps<T>(work: () => Promise<T>): Promise<T> {
    return await this.#inTurn(work);
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#idle?.cancel();
    await this.#host?.terminate(terminateMs);
  }

  async *#parts(request: SearchRequest, signal: AbortSignal): AsyncGenerator<SearchPart, void, undefined> {
    const { clock, logId, lastId } = this.#log;
    const untilMs = clock.monoMs() + SEARCH_MS;
    const begunIn = logId();
    const upTo = lastId();
    let part: SearchPart = { matches: [], entries: 0, bytes: 0, throughId: Math.min(request.after, upTo), upTo };
    await this.#call('beginSearch', { dir: this.#log.dir, logId: begunIn, query: { ...request, upTo } }, signal);
    yield part;
    while (part.end === undefined && !signal.aborted) {
      part = await this.#next(part, untilMs, signal);
      if (signal.aborted) return;
      yield part;
    }
  }

  async #next(before: SearchPart, untilMs: number, signal: AbortSignal): Promise<SearchPart> {
    const isInTime = await this.#waitWhileBehind(untilMs, signal);
    if (!isInTime) return { ...before, matches: [], end: { reason: 'time', error: '' } };
    try {
      const { matches, entries, bytes, throughId, done } = await this.#call('stepSearch', undefined, signal);
      const part = {
        matches,
        entries: before.entries + entries,
        bytes: before.bytes + bytes,
        throughId,
        upTo: before.upTo,
      };
      return done === undefined ? part : { ...part, end: { reason: done, error: '' } };
    } catch (error) {
      return { ...before, matches: [], end: { reason: 'failed', error: messageOf(error) } };
    }
  }

  async #makeHistogram(request: HistogramRequest): Promise<Histogram> {
    const { clock, dir, logId, lastId } = this.#log;
    const { signal } = new AbortController();
    const untilMs = clock.monoMs() + HISTOGRAM_MS;
    await this.#waitWhileBehind(untilMs, signal);
    await this.#call('beginHistogram', { dir, logId: logId(), query: { ...request, upTo: lastId() } }, signal);
    while (await this.#waitWhileBehind(untilMs, signal)) {
      const made = await this.#call('stepHistogram', undefined, signal);
      if (made !== undefined) return made;
    }
    throw new LinesideError('NOT_READY', `the log is too busy for a histogram: none within ${HISTOGRAM_MS / 1_000} s`);
  }

  /** False: the time is over. */
  async #waitWhileBehind(untilMs: number, signal: AbortSignal): Promise<boolean> {
    const { clock, isBehind } = this.#log;
    while (isBehind() && clock.monoMs() < untilMs && !signal.aborted) await pause(clock, behindMs, signal);
    return clock.monoMs() < untilMs;
  }

  async #call<M extends keyof SearchCalls>(
    method: M,
    request: SearchCalls[M]['request'],
    signal: AbortSignal,
  ): Promise<SearchCalls[M]['response']> {
    return await this.#inTurn(async () => {
      signal.throwIfAborted();
      try {
        return await this.#started().call(method, request);
      } catch (error) {
        if (systemCode(error) === 'INVALID_ARGUMENT') throw new LinesideError('INVALID_ARGUMENT', messageOf(error));
        throw new LinesideError('NOT_READY', `the log cannot be searched now: ${messageOf(error)}`, { cause: error });
      }
    });
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => {});
    return done;
  }

  #started(): WorkerHost<SearchCalls> {
    if (this.#closed) throw new LinesideError('SHUTTING_DOWN', 'the service is stopping');
    this.#idle?.cancel();
    if (this.#host?.alive !== true)
      this.#host = new WorkerHost<SearchCalls>(besideModule('search-worker', import.meta.url), memoryLimits);
    return this.#host;
  }

  #armIdle(): void {
    this.#idle?.cancel();
    if (this.#closed) return;
    this.#idle = this.#log.clock.timer(idleMs, () => {
      if (this.#isSearching || this.#waiting > 0) return;
      const host = this.#host;
      this.#host = undefined;
      void host?.terminate(terminateMs);
    });
  }
}
