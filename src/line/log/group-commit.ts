/**
 * Takes what was appended to the store: one batch, one transaction, one fsync at a time. Under load everything that
 * came in during one commit makes the next, so the batches grow with the load.
 *
 * States: starting (no store yet), ok, failing (tried again with backoff until it works). A store that hangs is
 * `stalled`: the batch under way may still be committed, so it is waited for.
 */
import { backoffMs } from '../../shared/base/backoff.ts';
import type { Clock, Timer } from '../../shared/base/clock.ts';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import type { LogEntry, LogGap } from './entry.ts';
import { describeFailure, isDamage, isFileLost, notStored } from './failures.ts';
import { pack } from './packed.ts';
import { type Item, PendingQueue, type Pressure, type Taken } from './pending-queue.ts';
import type { Segment } from './segments.ts';
import { idBlock } from './store/schema.ts';
import type { Appended, NewEvent, Opened, OpenRequest, StoreClient, StoreSizes } from './store-client.ts';

interface GroupCommitOptions {
  readonly store: Pick<StoreClient, 'call'>;
  readonly dir: string;
  /** Read again for each batch. */
  readonly limits: () => { readonly commitMs: number; readonly maxBytes: number };
  readonly queueBytes: number;
  readonly pressure: Pick<Pressure, 'progress' | 'measure' | 'close'>;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Last id handed out. */
  readonly headId: () => number;
  /** The log was opened, first or again. Called before anything is appended to it. */
  readonly onOpened: (opened: Opened) => void;
  readonly onCommitted: (sizes: Appended, gaps: readonly LogGap[]) => void;
  /** An entry of so many bytes cannot be stored. */
  readonly onLost: (bytes: number) => void;
  /** What the file does not know yet of the clock of entries up to the id; `written` when a commit has taken it. */
  readonly segments: {
    due(lastId: number): readonly Segment[];
    written(segments: readonly Segment[]): void;
  };
}

/** So much is worth a commit of its own; less where the queue is small. */
const flushBytes = 256 * 1024;
/** A slow card (10 MB/s, everything written twice) takes a batch of this size in 0.2 s. */
const maxBatchBytes = 1024 * 1024;
const firstRetryMs = 250;
const maxRetryMs = 5_000;
/** After so many failures in a row the file is reopened: an I/O error may have wedged the connection. */
const reopenEvery = 4;
/** Damage that is met again so soon, on a connection that was reopened in between, is in the file. */
const damageAgainMs = 60_000;
/** SD cards take up to 5 s for an fsync; longer is a hang. */
const stallMs = 10_000;

type State =
  | { readonly kind: 'starting' | 'ok' | 'closed' }
  | { readonly kind: 'failing'; readonly text: string; readonly attempt: number; readonly lostBefore: number };

export class GroupCommit {
  readonly #o: GroupCommitOptions;
  readonly #queue = new PendingQueue();
  readonly #flushBytes: number;
  #state: State = { kind: 'starting' };
  #inFlight: Taken | undefined;
  /** A call that changes the store is under way. */
  #busy = false;
  #stalled = false;
  /** What is pending should not wait for the timer. */
  #due = false;
  /** Stamps of stored entries were corrected, which is to be stored now. */
  #correctionDue = false;
  #commitTimer: Timer | undefined;
  #retryTimer: Timer | undefined;
  #stallTimer: Timer | undefined;
  #mustOpen = true;
  #setAsideFor = '';
  #damageSeenMs = Number.NEGATIVE_INFINITY;
  #logId = '';
  #decidedId = 0;
  #ceilingId = 0;
  #headAtCommit = 0;
  #lost = 0;
  #commits = 0;
  #idle: (() => void)[] = [];

  constructor(options: GroupCommitOptions) {
    this.#o = options;
    this.#flushBytes = Math.min(flushBytes, options.queueBytes / 4);
  }

  /** Why entries are not being stored; '' when they are. */
  get failure(): string {
    if (this.#state.kind === 'failing') return this.#state.text;
    if (this.#stalled)
      return `the log is not being stored: the disk under ${this.#o.dir} has not answered for ${stallMs / 1000} s.`;
    return this.#state.kind === 'starting' ? 'the log is being opened' : '';
  }

  get pendingEntries(): number {
    return this.#queue.length + (this.#inFlight?.items.length ?? 0);
  }

  get pendingBytes(): number {
    return this.#queue.cost + (this.#inFlight?.cost ?? 0);
  }

  /** Lost ranges that no commit has recorded yet. */
  get pendingGaps(): readonly LogGap[] {
    return this.#queue.gaps;
  }

  get commits(): number {
    return this.#commits;
  }

  /** Opens the store; resolves when the first attempt has ended either way. */
  start(): Promise<void> {
    return this.#attempt();
  }

  add(entry: LogEntry): void {
    this.#push({ entry, waiter: undefined });
  }

  addEvent(event: NewEvent): void {
    this.#queue.pushEvents([event]);
    this.#armTimer();
  }

  /** Why store() would be refused now; '' when it would not. */
  get refusal(): string {
    if (this.#state.kind === 'ok' && !this.#stalled) {
      return this.pendingBytes > this.#o.queueBytes ? 'the queue of the log is full' : '';
    }
    return this.#state.kind === 'closed' ? 'the log is closed' : this.failure;
  }

  /** Resolves once the entry is committed. */
  addAndWait(entry: LogEntry): Promise<LogEntry> {
    const waiter = Promise.withResolvers<LogEntry>();
    this.#push({ entry, waiter });
    return waiter.promise;
  }

  /** Stores what became known of stored entries' stamps. */
  storeCorrection(): void {
    this.#correctionDue = true;
    this.#pump();
  }

  /** A reader or retention met a failure: damage and a dead worker are repaired here. `checked`: the whole file was. */
  report(error: unknown, checked = false): void {
    if (this.#state.kind === 'closed' || this.#mustOpen) return;
    if (!isDamage(error) && systemCode(error) !== 'WORKER_EXITED') return;
    if (isDamage(error)) this.#noteDamage(messageOf(error), checked || isFileLost(error));
    this.#mustOpen = true;
    this.#next();
  }

  /** Stores everything pending; resolves also when that turns out to be impossible. */
  async flush(): Promise<void> {
    while (!this.#queue.empty || this.#correctionDue || this.#busy) {
      if (!this.#busy && this.#state.kind !== 'ok') return;
      this.#due = true;
      this.#pump();
      await new Promise<void>((resolve) => this.#idle.push(resolve));
    }
  }

  close(): void {
    const reason = notStored('the log is closed');
    for (const { waiter } of this.#queue.dropWaiting('the service stopped')) waiter?.reject(reason);
    this.#state = { kind: 'closed' };
    for (const timer of [this.#commitTimer, this.#retryTimer, this.#stallTimer]) timer?.cancel();
    this.#o.pressure.close();
    this.#signalIdle();
  }

  #push(item: Item): void {
    this.#queue.push(item);
    this.#limit();
    this.#measurePressure();
    this.#armTimer();
    this.#pump();
  }

  #armTimer(): void {
    this.#commitTimer ??= this.#o.clock.timer(this.#o.limits().commitMs, () => {
      this.#commitTimer = undefined;
      this.#due = true;
      this.#pump();
    });
  }

  #pump(): void {
    if (this.#busy || this.#state.kind !== 'ok' || (this.#queue.empty && !this.#correctionDue)) return;
    if (!this.#correctionDue && !this.#due && this.#queue.waiting === 0 && this.#queue.cost < this.#flushBytes) return;
    void this.#attempt();
  }

  /** One step: opens the store when it must be, then one batch. Every failure ends in #failed. */
  async #attempt(): Promise<void> {
    if (this.#busy) return;
    this.#busy = true;
    try {
      if (this.#mustOpen) await this.#open();
      await this.#commit();
      this.#succeeded();
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#busy = false;
      this.#signalIdle();
    }
    this.#next();
  }

  #next(): void {
    const retried = this.#state.kind === 'failing' || this.#state.kind === 'closed';
    if (this.#mustOpen && !retried) void this.#attempt();
    else this.#pump();
  }

  async #open(): Promise<void> {
    const request: OpenRequest = {
      dir: this.#o.dir,
      logId: this.#logId,
      headId: this.#logId === '' ? 0 : this.#o.headId(),
      decidedId: this.#decidedId,
      setAsideFor: this.#setAsideFor,
      uptimeMs: this.#o.clock.monoMs(),
    };
    const opened = await this.#watched(this.#o.store.call('open', request));
    if (this.#logId === '') this.#queue.rebase(opened.nextId - 1);
    this.#mustOpen = false;
    this.#setAsideFor = '';
    this.#logId = opened.logId;
    this.#note(opened);
    this.#o.onOpened(opened);
    this.#headAtCommit = this.#o.headId();
  }

  async #commit(): Promise<void> {
    const batchBytes = Math.min(maxBatchBytes, Math.max(1, Math.floor(this.#o.queueBytes / 4)));
    const taken = this.#queue.take(batchBytes);
    const segments = this.#o.segments.due(taken.items.at(-1)?.entry.id ?? this.#decidedId);
    this.#correctionDue = false;
    if (taken.items.length + taken.gaps.length + taken.events.length + segments.length === 0) return;
    this.#commitTimer?.cancel();
    this.#commitTimer = undefined;
    this.#due = !this.#queue.empty;
    this.#inFlight = taken;
    this.#o.pressure.progress();
    const request = {
      batch: pack(taken.items.map(({ entry }) => entry)),
      gaps: taken.gaps,
      segments,
      events: taken.events,
      ceilingId: this.#ceilingWanted(),
      maxBytes: this.#o.limits().maxBytes,
      uptimeMs: this.#o.clock.monoMs(),
    };
    const sizes = await this.#watched(this.#o.store.call('append', request, [request.batch.buffer]));
    this.#inFlight = undefined;
    this.#commits++;
    this.#o.segments.written(segments);
    this.#note(sizes);
    this.#o.onCommitted(sizes, taken.gaps);
    for (const { entry, waiter } of taken.items) waiter?.resolve(entry);
  }

  /** Ids are handed out before they are committed: the ceiling stays ahead by what the last commit's time took, fourfold. */
  #ceilingWanted(): number {
    const head = this.#o.headId();
    const block = Math.max(idBlock, 4 * (head - this.#headAtCommit));
    this.#headAtCommit = head;
    return this.#ceilingId - head < block / 2 ? head + block : 0;
  }

  #note(sizes: StoreSizes): void {
    this.#decidedId = sizes.decidedId;
    this.#ceilingId = sizes.ceilingId;
  }

  /** Awaits a call and notices when it hangs: then callers who wait for entries not yet handed over are refused. */
  async #watched<T>(call: Promise<T>): Promise<T> {
    this.#stallTimer = this.#o.clock.timer(stallMs, () => {
      this.#stalled = true;
      this.#o.logger.error(this.failure);
      this.#refuseWaiting(this.failure);
    });
    try {
      return await call;
    } finally {
      this.#stallTimer?.cancel();
      this.#stallTimer = undefined;
      if (this.#stalled) this.#o.logger.info('the disk of the log answers again');
      this.#stalled = false;
    }
  }

  #succeeded(): void {
    if (this.#state.kind === 'failing') {
      const entries = this.#lost - this.#state.lostBefore;
      this.#o.logger.info('the log is being stored again', { lost_entries: entries });
    }
    if (this.#state.kind !== 'closed') this.#state = { kind: 'ok' };
    this.#o.pressure.progress();
    this.#measurePressure();
  }

  #failed(error: unknown): void {
    const taken = this.#inFlight;
    this.#inFlight = undefined;
    if (taken !== undefined) this.#queue.putBack(taken);
    if (this.#state.kind === 'closed') return;
    const { code, text } = describeFailure(error, this.#o.dir);
    if (isDamage(error) && this.#setAsideFor === '' && this.#state.kind !== 'failing') {
      // The reopened file, or a new one, takes what is pending, the waiting callers' entries too: nothing has
      // failed for them.
      this.#noteDamage(messageOf(error), isFileLost(error));
      this.#mustOpen = true;
      return;
    }
    const attempt = this.#state.kind === 'failing' ? this.#state.attempt + 1 : 0;
    const lostBefore = this.#state.kind === 'failing' ? this.#state.lostBefore : this.#lost;
    if (attempt === 0) this.#o.logger.error(text);
    this.#state = { kind: 'failing', text, attempt, lostBefore };
    if (isDamage(error)) this.#noteDamage(messageOf(error), isFileLost(error));
    const wedged = attempt % reopenEvery === reopenEvery - 1 && code !== 'SQLITE_FULL';
    this.#mustOpen ||= wedged || code === 'WORKER_EXITED' || isDamage(error);
    this.#refuseWaiting(text);
    this.#limit();
    this.#measurePressure();
    this.#retryTimer = this.#o.clock.timer(backoffMs(attempt, firstRetryMs, maxRetryMs), () => void this.#attempt());
  }

  /** A disk that cannot be read for a moment makes a sound file appear damaged (measured): the second check decides. */
  #noteDamage(text: string, checked = false): void {
    const nowMs = this.#o.clock.monoMs();
    if (checked || nowMs - this.#damageSeenMs < damageAgainMs) this.#setAsideFor = text;
    this.#damageSeenMs = nowMs;
  }

  #refuseWaiting(reason: string): void {
    this.#lose(this.#queue.dropWaiting(reason), reason);
  }

  #limit(): void {
    const room = this.#o.queueBytes - (this.#inFlight?.cost ?? 0);
    if (this.#queue.cost <= room) return;
    const reason = this.failure === '' ? 'entries came in faster than the disk takes them' : this.failure;
    this.#lose(this.#queue.dropOldest(room, reason), reason);
  }

  #lose(items: readonly Item[], reason: string): void {
    for (const { entry, waiter } of items) {
      this.#lost++;
      this.#o.onLost(entry.data.length);
      waiter?.reject(notStored(reason));
    }
  }

  #measurePressure(): void {
    this.#o.pressure.measure(this.pendingBytes, this.#state.kind === 'ok');
  }

  #signalIdle(): void {
    const idle = this.#idle;
    this.#idle = [];
    for (const call of idle) call();
  }
}
