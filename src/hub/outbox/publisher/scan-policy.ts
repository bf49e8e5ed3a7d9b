/**
 * What is done with each row as it is read, by the scan or by a pass: offered, held, passed over, or waited for. And when
 * a pass over the backlog begins and ends. Pure.
 */
import type { Gap } from './backlog.ts';
import type { Head, Lane, RowHead } from './key-queue.ts';
import type { InFlight } from './scheduler-state.ts';

/** 'offer': now, and tell taken(). 'next': it is accounted for, look at the next row. 'wait': no room, ask again later. */
export type Verdict = 'offer' | 'next' | 'wait';

/** A lane whose row has been on its way for longer is not waited for by the scan. */
const promptMs = 1_000;
/** With so many prompt rows on their way the line to the broker is busy, and the scan need not run ahead. */
const busyLanes = 64;

export class Reading<R extends RowHead> {
  readonly #hand: InFlight<R>;

  constructor(hand: InFlight<R>) {
    this.#hand = hand;
  }

  position(): { readonly after: number; readonly pass: number } {
    if (this.#hand.backlog.isSought) this.#beginPass();
    return this.#hand.backlog.position;
  }

  judge(row: R, nowMs: number): Verdict {
    const { backlog, lanes } = this.#hand;
    if (backlog.isPassing && !backlog.isSeen(row.id)) {
      this.#endPass();
      return 'next';
    }
    const lane = lanes.of(row);
    const verdict = lane === undefined ? this.#judgeFree(row) : this.#judgeLane(lane, row, nowMs);
    if (verdict === 'next') {
      backlog.advance(row.id);
      this.#leavePassIfIdle();
    }
    return verdict;
  }

  exhausted(): void {
    if (this.#hand.backlog.isPassing) this.#endPass();
  }

  #judgeFree(row: R): Verdict {
    const { backlog, lanes, limits, topics } = this.#hand;
    const slice = topics.sliceOf(row);
    const { gap, isOpen } = slice;
    // In the first scan too: an earlier row of this key may be among those passed over.
    if (!backlog.isWhole(gap) || !isOpen) return this.#passOver(gap, row.id);
    if (lanes.size < limits.lanes) return this.#hand.hasRoomFor(row) ? 'offer' : 'wait';
    const hungry = lanes.in('hungry');
    if (hungry.size === 0) {
      const defer = this.#hand.putOffUnreached(slice);
      if (defer === slice) return this.#passOver(gap, row.id);
      return defer !== undefined && this.#hand.hasRoomFor(row) ? 'offer' : 'wait';
    }
    // Lanes that may have no row left make room: what they seek is sought for their slices.
    for (const lane of hungry) this.#hand.giveUp(lane);
    backlog.seek();
    return this.#passOver(gap, row.id);
  }

  #judgeLane(lane: Lane<R>, row: R, nowMs: number): Verdict {
    const hand = this.#hand;
    const { kind } = lane.head;
    if (kind === 'hungry' && !lane.slice.isOpen) {
      this.#passOver(lane.gap, row.id);
      hand.giveUp(lane);
      return 'next';
    }
    if (kind === 'parked' || !hand.isInTurn(lane)) return this.#passOver(lane.gap, row.id);
    if (kind === 'hungry') return hand.hasRoomFor(row) ? 'offer' : 'wait';
    if (this.#hold(lane, row)) return 'next';
    if (!hand.backlog.isPassing) {
      if (this.#promptLanes(nowMs) >= busyLanes) return 'wait';
      for (const each of hand.held.lanes()) if (!isPrompt(each.head, nowMs)) hand.letGo(each);
      // Unless this lane was itself slow: its earlier rows were passed over just now.
      if (lane.gap.isEmpty && this.#hold(lane, row)) return 'next';
    }
    return this.#passOver(lane.gap, row.id);
  }

  #hold(lane: Lane<R>, row: R): boolean {
    const { backlog, held } = this.#hand;
    if (!held.hold(lane, row)) return false;
    backlog.met(lane.gap, row.id);
    backlog.found();
    return true;
  }

  #passOver(gap: Gap, id: number): 'next' {
    this.#hand.backlog.passOver(gap, id);
    return 'next';
  }

  #promptLanes(nowMs: number): number {
    const flying = this.#hand.lanes.in('flying');
    let slow = 0;
    // In the order in which they were taken.
    for (const { head } of flying) {
      if (isPrompt(head, nowMs)) break;
      slow++;
    }
    return flying.size - slow;
  }

  // ---- passes

  #beginPass(): void {
    const { backlog, lanes, topics } = this.#hand;
    const gaps: Gap[] = [];
    for (const lane of lanes.in('hungry')) {
      if (lane.slice.isOpen) gaps.push(lane.gap);
      else this.#hand.giveUp(lane);
    }
    for (const { gap } of topics.sought()) gaps.push(gap);
    backlog.beginPass(gaps);
  }

  /** Nothing is sought any more, and it does not fill up what is held either. */
  #leavePassIfIdle(): void {
    const { backlog, lanes, held, topics } = this.#hand;
    if (!backlog.isPassing || lanes.in('hungry').size > 0) return;
    if (!backlog.isIdle && !held.isFull) return;
    if (!topics.sought().some(({ gap }) => backlog.hasNotSkipped(gap))) backlog.leavePass();
  }

  #endPass(): void {
    const { backlog, lanes, topics } = this.#hand;
    backlog.endPass([...topics.all(), ...lanes.all()]);
    const hungry = lanes.in('hungry');
    for (const lane of hungry) if (lane.gap.isEmpty) lanes.close(lane);
    if (hungry.size > 0 || topics.sought().length > 0) backlog.seek();
  }
}

function isPrompt(head: Head<unknown>, nowMs: number): boolean {
  return (
    head.kind === 'ready' || ((head.kind === 'flying' || head.kind === 'settled') && nowMs - head.sinceMs < promptMs)
  );
}
