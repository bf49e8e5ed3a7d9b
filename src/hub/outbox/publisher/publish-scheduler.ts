/**
 * Which waiting row may go to the broker next. Pure: rows, outcomes and times come in, decisions go out.
 *
 * Each key has a queue with one head row, and a few rows behind it are held in memory (scheduler-state.ts);
 * others are passed over, and found again by another pass over the backlog (backlog.ts). A topic that refuses everything is
 * closed (topic-state.ts). So memory is bounded by queues and held rows, however many rows wait.
 *
 * Invariant: each waiting row the scan has seen is a head, is held, or is not below the gap of its queue or slice.
 */
import { backoffMs } from '../../../shared/base/backoff.ts';
import type { Outcome } from '../../kafka/face.ts';
import type { Gap } from './backlog.ts';
import { isPrompt, type KeyQueue, type RowHead, type SchedulerLimits, SchedulerState } from './scheduler-state.ts';

/** 'offer': now, then call taken(). 'next': the row is accounted for. 'wait': there is no room, ask again later. */
type ScanDecision = 'offer' | 'next' | 'wait';

/** To be written to the row before its queue advances; `attempt` while the row waits. */
export type RowUpdate =
  | { readonly kind: 'published'; readonly id: number }
  | {
      readonly kind: 'dead';
      readonly id: number;
      readonly attempts: number;
      readonly reason: string;
      readonly topic: string;
      readonly key: string;
    }
  | { readonly kind: 'attempt'; readonly id: number; readonly attempts: number; readonly reason: string };

export interface BlockedRow {
  readonly topic: string;
  readonly key: string;
  readonly id: number;
  readonly attempts: number;
  readonly reason: string;
  readonly retryInMs: number;
}

/** With so many prompt rows in flight the connection to the broker is busy, and the scan need not run ahead. */
const busyRows = 64;

/** After a refusal, and after a row came back unreached. */
const firstRetryMs = 1_000;
const lastRetryMs = 60_000;

/** Between two deferred slices: each costs a pass over the backlog, and the scan is to continue in between. */
const resumePauseMs = 1_000;
/** A pass that runs is replaced only after this long: it begins again. */
const longPassMs = 60_000;

/**
 * A key without a queue is free: its next row is offered when the scan meets it, and opens the queue when the broker takes
 * it. Then the head of the queue is
 *
 *     inFlight  until its outcome comes: acknowledged, or permanently refused (a dead letter) -> settled;
 *               refused, or unreached -> backoff; refused by a topic that has its limit of blocked keys -> evicted
 *     backoff   until its time, or after `unreached` until the broker is connected again -> ready
 *     ready     until there is room: taken -> inFlight; the row no longer waits -> the queue advances, as after settled
 *     settled   until its outcome is written. Then the queue advances: the next held row -> ready; none held, but some
 *               passed over -> idle; neither -> the queue is closed, and the key is free
 *     idle      (no head) until a pass meets the next row: taken -> inFlight; there was none -> the queue is closed
 *
 * A queue is closed into its slice, the keys of its topic with the same hash, by adding its gap to the gap of the slice:
 * then the key has no queue, and no row of the slice behind that gap is offered until a pass has met all of it. This is done
 * to idle queues when others need the room, and to queues without a head when their topic closes.
 *
 * If there is no idle queue, those in backoff after `unreached` make room: rows of a partition without a leader come back
 * again and again while all others pass. They are evicted a slice at a time, and the slice is deferred: it is not sought
 * before their time has come, and then one slice after the other. So the other keys of the slice wait for its turn, other
 * slices and topics do not wait. Only a slice that alone has more such keys than half the queues may never reach all of them.
 */
export class PublishScheduler<R extends RowHead> {
  readonly #state: SchedulerState<R>;
  #resumedAtMs = Number.NEGATIVE_INFINITY;

  constructor(limits: SchedulerLimits) {
    this.#state = new SchedulerState(limits);
  }

  // ---- rows as they are read

  /** Where reading resumes: rows behind `after`. `pass` changes whenever rows read before are to be dropped. */
  position(): { readonly after: number; readonly pass: number } {
    if (this.#state.backlog.isSought) this.#beginPass();
    return this.#state.backlog.position;
  }

  /** A row that is a head or held already is left out when rows are read. */
  isLoaded(id: number): boolean {
    return this.#state.has(id);
  }

  /** About the next row behind position(). */
  decide(row: R, nowMs: number): ScanDecision {
    const { backlog, queues } = this.#state;
    if (backlog.isPassing && !backlog.isSeen(row.id)) {
      this.#endPass();
      return 'next';
    }
    const queue = queues.of(row);
    const verdict = queue === undefined ? this.#decideForFreeKey(row) : this.#decideForQueue(queue, row, nowMs);
    if (verdict === 'next') {
      backlog.advance(row.id);
      this.#leavePassIfIdle();
    }
    return verdict;
  }

  /** No row waits behind position(). */
  exhausted(): void {
    if (this.#state.backlog.isPassing) this.#endPass();
  }

  #decideForFreeKey(row: R): ScanDecision {
    const { backlog, queues, limits, topics } = this.#state;
    const slice = topics.sliceOf(row);
    const { gap, isOpen } = slice;
    // In the first scan too: an earlier row of this key may be among those passed over.
    if (!backlog.isWhole(gap) || !isOpen) return this.#passOver(gap, row.id);
    if (queues.size < limits.keys) return this.#state.hasRoomFor(row) ? 'offer' : 'wait';
    const idle = queues.in('idle');
    if (idle.size === 0) {
      const defer = this.#state.deferUnreached(slice);
      if (defer === slice) return this.#passOver(gap, row.id);
      return defer !== undefined && this.#state.hasRoomFor(row) ? 'offer' : 'wait';
    }
    // Queues that may have no row left make room: their gaps become gaps of their slices.
    for (const queue of idle) this.#state.closeIntoSlice(queue);
    backlog.seek();
    return this.#passOver(gap, row.id);
  }

  #decideForQueue(queue: KeyQueue<R>, row: R, nowMs: number): ScanDecision {
    const state = this.#state;
    const { kind } = queue.head;
    if (kind === 'idle' && !queue.slice.isOpen) {
      this.#passOver(queue.gap, row.id);
      state.closeIntoSlice(queue);
      return 'next';
    }
    if (kind === 'backoff' || !state.isInTurn(queue)) return this.#passOver(queue.gap, row.id);
    if (kind === 'idle') return state.hasRoomFor(row) ? 'offer' : 'wait';
    if (this.#hold(queue, row)) return 'next';
    if (!state.backlog.isPassing) {
      if (this.#promptRows(nowMs) >= busyRows) return 'wait';
      for (const each of state.held.queues()) if (!isPrompt(each.head, nowMs)) state.dropHeld(each);
      // Unless this queue was itself slow: its earlier rows were passed over just now.
      if (queue.gap.isEmpty && this.#hold(queue, row)) return 'next';
    }
    return this.#passOver(queue.gap, row.id);
  }

  #hold(queue: KeyQueue<R>, row: R): boolean {
    const { backlog, held } = this.#state;
    if (!held.hold(queue, row)) return false;
    backlog.met(queue.gap, row.id);
    backlog.found();
    return true;
  }

  #passOver(gap: Gap, id: number): 'next' {
    this.#state.backlog.passOver(gap, id);
    return 'next';
  }

  #promptRows(nowMs: number): number {
    const inFlight = this.#state.queues.in('inFlight');
    let slow = 0;
    // In the order in which they were taken.
    for (const { head } of inFlight) {
      if (isPrompt(head, nowMs)) break;
      slow++;
    }
    return inFlight.size - slow;
  }

  // ---- passes over the backlog

  #beginPass(): void {
    const { backlog, queues, topics } = this.#state;
    const gaps: Gap[] = [];
    for (const queue of queues.in('idle')) {
      if (queue.slice.isOpen) gaps.push(queue.gap);
      else this.#state.closeIntoSlice(queue);
    }
    for (const { gap } of topics.sought()) gaps.push(gap);
    backlog.beginPass(gaps);
  }

  /** Nothing is sought any more, and it does not fill up what is held either. */
  #leavePassIfIdle(): void {
    const { backlog, queues, held, topics } = this.#state;
    if (!backlog.isPassing || queues.in('idle').size > 0) return;
    if (!backlog.isIdle && !held.isFull) return;
    if (!topics.sought().some(({ gap }) => backlog.hasNotSkipped(gap))) backlog.leavePass();
  }

  #endPass(): void {
    const { backlog, queues, topics } = this.#state;
    backlog.endPass([...topics.all(), ...queues.all()]);
    const idle = queues.in('idle');
    for (const queue of idle) if (queue.gap.isEmpty) queues.close(queue);
    if (idle.size > 0 || topics.sought().length > 0) backlog.seek();
  }

  // ---- rows that are sent

  /** Heads that may be sent before anything is scanned: retries, and rows that were held. */
  *readyRows(): Generator<{ readonly id: number; readonly row: R | undefined }> {
    for (const queue of this.#state.queues.in('ready')) {
      if (queue.head.kind !== 'ready') continue;
      if (queue.head.row !== undefined && !queue.topic.isOpen) this.#state.evict(queue, queue.head.id);
      else yield queue.head;
    }
  }

  hasRoomFor(row: R): boolean {
    return this.#state.hasRoomFor(row);
  }

  /** The broker has it. */
  taken(row: R, nowMs: number): void {
    const queue = this.#state.queues.of(row) ?? this.#open(row);
    if (queue.head.kind !== 'ready') {
      this.#state.backlog.met(queue.gap, row.id);
      this.#state.backlog.advance(row.id);
      this.#state.backlog.found();
    }
    // Its last refusal may not have been written yet.
    const attempts = Math.max(row.attempts, queue.refusal?.attempts ?? 0);
    this.#state.queues.move(queue, { kind: 'inFlight', id: row.id, bytes: row.bytes, attempts, sinceMs: nowMs });
    queue.topic.inFlight++;
    this.#state.inFlightBytes += row.bytes;
  }

  #open(row: R): KeyQueue<R> {
    const slice = this.#state.topics.sliceOf(row);
    this.#state.backlog.met(slice.gap, row.id);
    return this.#state.queues.open(row, slice);
  }

  /** A row that was to be re-read no longer waits. */
  removed(id: number): void {
    const queue = this.#state.queues.withHead(id);
    if (queue?.head.kind === 'ready') this.#advance(queue);
  }

  // ---- outcomes

  /** undefined: nothing is to be written. */
  settled(id: number, outcome: Outcome, nowMs: number): RowUpdate | undefined {
    const queue = this.#state.queues.withHead(id);
    if (queue?.head.kind !== 'inFlight') return undefined;
    const { bytes } = queue.head;
    const attempts = queue.head.attempts + 1;
    this.#state.inFlightBytes -= bytes;
    queue.topic.inFlight--;
    switch (outcome.kind) {
      case 'acknowledged':
        queue.topic.lastWasRefused = false;
        this.#state.queues.move(queue, { kind: 'settled', id, sinceMs: nowMs });
        return { kind: 'published', id };
      case 'unreached':
        // The topic does not refuse everything; unreachable rows must not keep it closed.
        queue.topic.lastWasRefused = false;
        this.#backOff(queue, id, false, nowMs);
        return undefined;
      case 'refused': {
        const { reason, permanent } = outcome;
        if (permanent || attempts > this.#state.limits.maxAttempts) {
          this.#state.queues.move(queue, { kind: 'settled', id, sinceMs: nowMs });
          return { kind: 'dead', id, attempts, reason, topic: queue.topicName, key: queue.key };
        }
        queue.topic.lastWasRefused = true;
        queue.refusal = { reason, attempts };
        if (queue.topic.isFullOfBlocked) this.#state.evict(queue, id);
        else this.#backOff(queue, id, true, nowMs);
        return { kind: 'attempt', id, attempts, reason };
      }
    }
  }

  #backOff(queue: KeyQueue<R>, id: number, refused: boolean, nowMs: number): void {
    this.#state.dropHeld(queue);
    const retryAtMs = nowMs + backoffMs(queue.retries++, firstRetryMs, lastRetryMs);
    this.#state.queues.move(queue, { kind: 'backoff', id, refused, retryAtMs });
    if (refused) queue.topic.blocked++;
  }

  /** What settled() wanted written is committed. */
  written(id: number): void {
    const queue = this.#state.queues.withHead(id);
    if (queue?.head.kind === 'settled') this.#advance(queue);
  }

  /** The head is done with. */
  #advance(queue: KeyQueue<R>): void {
    queue.retries = 0;
    queue.refusal = undefined;
    const next = this.#state.held.takeNext(queue);
    if (next !== undefined) {
      this.#state.queues.move(queue, { kind: 'ready', id: next.id, row: next });
    } else if (queue.gap.isEmpty) {
      this.#state.queues.close(queue);
    } else if (queue.slice.isOpen) {
      this.#state.queues.move(queue, { kind: 'idle' });
      // The running pass may still meet its next row.
      if (!this.#state.isInTurn(queue)) this.#state.backlog.seek();
    } else {
      this.#state.closeIntoSlice(queue);
    }
  }

  /** Heads whose backoff is over are ready; rows passed over while a topic was closed or a slice deferred are sought. */
  timePassed(nowMs: number): void {
    for (const queue of this.#state.queues.in('backoff')) {
      if (queue.head.kind === 'backoff' && queue.head.retryAtMs <= nowMs) this.#retry(queue);
    }
    const { backlog, topics } = this.#state;
    const pauseMs = backlog.isPassing ? longPassMs : resumePauseMs;
    if (nowMs - this.#resumedAtMs >= pauseMs && topics.resumeOne(nowMs)) this.#resumedAtMs = nowMs;
    if (topics.sought().some(({ gap }) => !backlog.isWhole(gap))) backlog.seek();
  }

  /** The broker is connected again: unreached rows need not wait for their time. */
  reconnected(): void {
    this.#state.topics.resumeAll();
    for (const queue of this.#state.queues.in('backoff')) {
      if (queue.head.kind !== 'backoff' || queue.head.refused) continue;
      queue.retries = 0;
      this.#retry(queue);
    }
  }

  #retry(queue: KeyQueue<R>): void {
    if (queue.head.kind !== 'backoff') return;
    if (queue.head.refused) queue.topic.blocked--;
    this.#state.queues.move(queue, { kind: 'ready', id: queue.head.id, row: undefined });
  }

  /** A row that was scanned before waits again: it was a dead letter. */
  requeued(topic: string, id: number): void {
    if (!this.#state.backlog.isSeen(id)) return;
    for (const { gap } of this.#state.topics.get(topic).slices) this.#state.backlog.passOver(gap, id);
    this.#state.backlog.seek();
  }

  // ---- status

  get inFlight(): number {
    return this.#state.inFlight;
  }

  get inFlightBytes(): number {
    return this.#state.inFlightBytes;
  }

  /** Rows and queues in memory: what the limits bound. */
  get inMemory(): number {
    const { queues, held } = this.#state;
    return queues.size + queues.heads + held.size;
  }

  /** Queues whose head was refused, also while it is being retried. */
  blocked(nowMs: number): readonly BlockedRow[] {
    const blocked: BlockedRow[] = [];
    for (const { topicName: topic, key, refusal, head } of this.#state.queues.all()) {
      if (refusal === undefined || head.kind === 'idle') continue;
      const retryInMs = head.kind === 'backoff' ? Math.max(0, head.retryAtMs - nowMs) : 0;
      blocked.push({ topic, key, id: head.id, ...refusal, retryInMs });
    }
    return blocked;
  }
}
