/**
 * What is done with each row as it is read, by the scan or by a pass: offered, held, passed over, or waited for. And when
 * a pass over the backlog begins and ends. Pure.
 */
import type { Gap } from './backlog.ts';
import type { Head, KeyQueue, RowHead } from './key-queue.ts';
import type { SchedulerState } from './scheduler-state.ts';

/** 'offer': now, then call taken(). 'next': it is accounted for, go to the next row. 'wait': no room, ask again later. */
export type ScanDecision = 'offer' | 'next' | 'wait';

/** The scan does not wait for a queue whose row has been in flight for longer. */
const promptMs = 1_000;
/** With so many prompt rows in flight the connection to the broker is busy, and the scan need not run ahead. */
const busyRows = 64;

export class ScanPolicy<R extends RowHead> {
  readonly #state: SchedulerState<R>;

  constructor(hand: SchedulerState<R>) {
    this.#state = hand;
  }

  position(): { readonly after: number; readonly pass: number } {
    if (this.#state.backlog.isSought) this.#beginPass();
    return this.#state.backlog.position;
  }

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
    const hand = this.#state;
    const { kind } = queue.head;
    if (kind === 'idle' && !queue.slice.isOpen) {
      this.#passOver(queue.gap, row.id);
      hand.closeIntoSlice(queue);
      return 'next';
    }
    if (kind === 'backoff' || !hand.isInTurn(queue)) return this.#passOver(queue.gap, row.id);
    if (kind === 'idle') return hand.hasRoomFor(row) ? 'offer' : 'wait';
    if (this.#hold(queue, row)) return 'next';
    if (!hand.backlog.isPassing) {
      if (this.#promptRows(nowMs) >= busyRows) return 'wait';
      for (const each of hand.held.queues()) if (!isPrompt(each.head, nowMs)) hand.dropHeld(each);
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

  // ---- passes

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
}

function isPrompt(head: Head<unknown>, nowMs: number): boolean {
  return (
    head.kind === 'ready' || ((head.kind === 'inFlight' || head.kind === 'settled') && nowMs - head.sinceMs < promptMs)
  );
}
