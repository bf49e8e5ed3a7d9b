/**
 * Follows the log over broken connections: every entry once, in order. The "alive" lines distinguish silence from a dead
 * connection. The clock and the connection are arguments. Pure.
 */
import { backoffMs } from '../shared/base/backoff.ts';
import { type Clock, pause, type Timer } from '../shared/base/clock.ts';
import { localProblem, type Problem, ProblemError, problemFrom } from './problem.ts';
import type { Row } from './rows.ts';
import { type Message, messagesOf } from './stream.ts';
import { text } from './text.ts';

export type FeedState =
  | { readonly is: 'paused' }
  | { readonly is: 'connecting' }
  | { readonly is: 'live' }
  /** Connected, but no line for longer than the interval of the "alive" lines. */
  | { readonly is: 'stale' }
  | { readonly is: 'waiting'; readonly problem: Problem }
  /** Trying again would not help. */
  | { readonly is: 'refused'; readonly problem: Problem };

export interface FeedOptions {
  /** The text of the answer as it comes. Rejects with a ProblemError if there is no answer. */
  open(query: string, signal: AbortSignal): Promise<AsyncIterable<string>>;
  /** The first entry that is stored. */
  firstStoredId(signal: AbortSignal): Promise<number>;
  readonly clock: Clock;
  onState(state: FeedState): void;
  onRows(rows: readonly Row[]): void;
  /** Another log, or a part of it that does not follow the rows so far. */
  onReset(why: 'replaced' | 'lost' | 'behind' | 'jump'): void;
}

/** Entries that a new page begins with: some screens of them. */
const FIRST_ENTRIES = 500;
/**
 * Ids that are read through after a break: several times what the page holds, and more than a power cut leaves unused
 * (16,384). A phone that slept for a day would load the day first, and show it as live.
 */
const MAX_BEHIND = 25_000;
/** The box sends an alive line every 2 s at least: two are missing. */
const STALE_AFTER_MS = 4_500;
/** Then the connection is abandoned: a phone that was asleep, a cable that was pulled. */
const DEAD_AFTER_MS = 12_000;
const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 10_000;

export class LogFeed {
  readonly #o: FeedOptions;
  #stop: AbortController | undefined;
  #logId = '';
  #afterId = 0;
  /** The position to resume from is known. */
  #begun = false;
  /** Where entries were missing last: if they are missing there again, the newest entries are shown. */
  #lostAt = -1;

  constructor(options: FeedOptions) {
    this.#o = options;
  }

  /** Up to where the log has been read. */
  get afterId(): number {
    return this.#afterId;
  }

  /** Resumes after the last entry; begins with the newest entries. */
  start(): void {
    if (this.#stop !== undefined) return;
    this.#stop = new AbortController();
    void this.#run(this.#stop.signal);
  }

  /** Continues with the newest entries; earlier ones are not shown. */
  startAtNewest(): void {
    this.pause();
    this.#forget();
    this.#o.onReset('jump');
    this.start();
  }

  /** Resumes after an entry: the newest that is still shown. */
  startAfter(id: number): void {
    this.pause();
    this.#afterId = id;
    this.#begun = true;
    this.start();
  }

  pause(): void {
    this.#stop?.abort();
    this.#stop = undefined;
    this.#o.onState({ is: 'paused' });
  }

  async #run(signal: AbortSignal): Promise<void> {
    for (let attempt = 0; !signal.aborted; attempt += 1) {
      this.#o.onState({ is: 'connecting' });
      let problem: Problem;
      try {
        const took = await this.#read(signal);
        if (took.any) attempt = 0;
        problem = took.problem;
      } catch (error) {
        problem = problemFrom(error);
      }
      if (signal.aborted) return;
      if (problem.code === 'LOG_LOST' && (await this.#skipRemoved(signal))) continue;
      if (isFinal(problem)) {
        this.#stop = undefined;
        this.#o.onState({ is: 'refused', problem });
        return;
      }
      this.#o.onState({ is: 'waiting', problem });
      await pause(this.#o.clock, backoffMs(attempt, FIRST_RETRY_MS, LONGEST_RETRY_MS), signal);
    }
  }

  /**
   * The next entries have been removed meanwhile, as after a day of sleep of a phone: shows a gap and resumes after it.
   * False: the first stored entry is unknown.
   */
  async #skipRemoved(signal: AbortSignal): Promise<boolean> {
    let first: number;
    try {
      first = await this.#o.firstStoredId(signal);
    } catch {
      return false;
    }
    if (signal.aborted) return true;
    const [from, to] = [this.#afterId + 1, first - 1];
    if (to >= from) {
      this.#afterId = to;
      const reason = text.problems.removed;
      this.#o.onRows([{ kind: 'gap', id: to, firstId: from, entries: to - from + 1, reason }]);
    } else if (this.#lostAt === this.#afterId) {
      this.#forget();
      this.#o.onReset('lost');
    }
    this.#lostAt = this.#afterId;
    return true;
  }

  /** One connection, to its end. */
  async #read(outer: AbortSignal): Promise<{ any: boolean; problem: Problem }> {
    const own = new AbortController();
    const signal = AbortSignal.any([outer, own.signal]);
    const watch = new Watch(this.#o, () => own.abort());
    let problem = lost(text.problems.ended);
    let any = false;
    try {
      // From the start: a connection may hang before its first line.
      watch.heard();
      const from = this.#begun ? `after=${this.#afterId}` : `last=${FIRST_ENTRIES}`;
      let standing = false;
      for await (const messages of messagesOf(await this.#o.open(`${from}&follow=true`, signal))) {
        if (outer.aborted) break;
        watch.heard();
        if (!standing) this.#o.onState({ is: 'live' });
        standing = true;
        any ||= messages.some(isProgress);
        const end = this.#take(messages);
        if (end === undefined) continue;
        problem = end;
        break;
      }
    } catch (error) {
      problem = own.signal.aborted ? lost(text.problems.silent) : problemFrom(error);
    } finally {
      watch.end();
      own.abort();
    }
    return { any, problem };
  }

  /** The problem that ended the stream, if one did. */
  #take(messages: readonly Message[]): Problem | undefined {
    const rows: Row[] = [];
    for (const message of messages) {
      this.#begun ||= message.type === 'row' || message.type === 'position';
      if (message.type === 'log') this.#begin(message);
      else if (message.type === 'row' && message.row.id > this.#afterId) {
        rows.push(message.row);
        this.#afterId = message.row.id;
      } else if (message.type === 'position') this.#afterId = Math.max(this.#afterId, message.nextAfterId);
      else if (message.type === 'end') {
        this.#o.onRows(rows);
        return { ...lost(message.message), code: message.code };
      }
    }
    if (rows.length > 0) this.#o.onRows(rows);
    return undefined;
  }

  /** Ids begin again in another log: the position in the previous one is invalid. */
  #begin({ logId, headId }: { logId: string; headId: number }): void {
    const replaced = this.#logId !== '' && this.#logId !== logId;
    const resumed = this.#begun;
    this.#logId = logId;
    if (replaced || (resumed && headId - this.#afterId > MAX_BEHIND)) {
      this.#forget();
      this.#o.onReset(replaced ? 'replaced' : 'behind');
      // This answer was requested by an id of the other log, or of long ago.
      if (resumed) throw new ProblemError(lost(replaced ? text.problems.logReplaced : text.problems.missed));
    }
    // An empty log continues from its first entry ever.
    this.#begun ||= headId === 0;
  }

  #forget(): void {
    this.#afterId = 0;
    this.#begun = false;
  }
}

/** Reports when there is no data for too long. */
class Watch {
  readonly #o: FeedOptions;
  readonly #onDead: () => void;
  #timer: Timer | undefined;
  #stale = false;

  constructor(options: FeedOptions, onDead: () => void) {
    this.#o = options;
    this.#onDead = onDead;
  }

  heard(): void {
    this.end();
    if (this.#stale) this.#o.onState({ is: 'live' });
    this.#stale = false;
    const { clock } = this.#o;
    this.#timer = clock.timer(STALE_AFTER_MS, () => {
      this.#stale = true;
      this.#o.onState({ is: 'stale' });
      this.#timer = clock.timer(DEAD_AFTER_MS - STALE_AFTER_MS, this.#onDead);
    });
  }

  end(): void {
    this.#timer?.cancel();
  }
}

/** More than the first line: the log is really being read. */
function isProgress({ type }: Message): boolean {
  return type === 'row' || type === 'position' || type === 'alive';
}

function lost(detail: string): Problem {
  return localProblem(text.problems.logLost, detail);
}

/** Refused credentials and rights are final; too many streams and a line that restarts are not. */
function isFinal({ status, code }: Problem): boolean {
  return status === 401 || status === 403 || code === 'UNAUTHENTICATED' || code === 'PERMISSION_DENIED';
}
