/**
 * Which waiting row may go to the broker next. Pure: rows, outcomes and times come in, decisions go out.
 *
 * Of each key one row is in hand (lane.ts); a few rows behind it are held in memory (held-rows.ts); others are passed over,
 * and found again by another pass over the backlog (backlog.ts); a topic that refuses everything is closed (topics.ts).
 * What is done with a row as it is read is in reading.ts; what becomes of it afterwards, here. So memory is bounded by
 * lanes and held rows, whatever waits.
 *
 * What holds at every moment: each waiting row the scan has seen is in hand, held, or not below the gap of its lane or slice.
 */
import { backoffMs } from '../../../shared/base/backoff.ts';
import type { Outcome } from '../../kafka/face.ts';
import type { Lane, RowHead } from './key-queue.ts';
import { Reading, type Verdict } from './scan-policy.ts';
import { InFlight, type LaneLimits } from './scheduler-state.ts';

/** To be written to the row before its lane goes on; `attempt` while it waits. */
export type Write =
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

export interface BlockedLane {
  readonly topic: string;
  readonly key: string;
  readonly id: number;
  readonly attempts: number;
  readonly reason: string;
  readonly retryInMs: number;
}

/** After a refusal, and after a row came back unreached. */
const firstRetryMs = 1_000;
const lastRetryMs = 60_000;

/** Between two slices that were put off: each costs a pass over the backlog, and the scan is to go on in between. */
const takeUpMs = 1_000;
/** Instead of a pass that is on its way only after so long: it begins again. */
const longPassMs = 60_000;

/**
 * A key without a lane is free: its next row is offered as the scan meets it, and opens the lane by being taken. Then the
 * row in hand is
 *
 *     flying    until its outcome comes: acknowledged, or permanently refused (a dead letter) -> settled;
 *               refused, or unreached -> parked; refused by a topic that has its fill of blocked keys -> the lane is given up
 *     parked    until its time, or until the broker is there again after it was unreached -> ready
 *     ready     until there is room: taken -> flying; it does not wait any more -> the lane goes on, as after settled
 *     settled   until its outcome is written. Then the lane goes on: the next held row -> ready; none held, but some passed
 *               over -> hungry; neither -> the lane is closed, and the key is free
 *     hungry    (no row in hand) until a pass meets the next row: taken -> flying; there was none -> the lane is closed
 *
 * A lane is given up by making its gap one of its slice, which is the keys of its topic with the same hash: then the key has
 * no lane, and no row of the slice behind that gap goes until a pass has met all of it. So are hungry lanes where others need
 * the room, and lanes with nothing but rows to come where their topic closes.
 *
 * Where there is no hungry lane, those parked unreached make room: rows of a partition without a leader come back again and
 * again while all else goes. They are given up a slice at a time, and the slice is put off: it is not sought before their
 * time has come, and then one slice after the other. So the keys beside them wait for their slice's turn, other slices and
 * topics for nothing; only where one slice alone has more such keys than half the lanes may keys of it not be come to.
 */
export class Lanes<R extends RowHead> {
  readonly #limits: LaneLimits;
  readonly #hand: InFlight<R>;
  readonly #reading: Reading<R>;
  #tookUpAtMs = Number.NEGATIVE_INFINITY;

  constructor(limits: LaneLimits) {
    this.#limits = limits;
    this.#hand = new InFlight(limits);
    this.#reading = new Reading(this.#hand);
  }

  // ---- rows as they are read

  /** Where reading goes on: rows behind `after`. `pass` changes whenever rows read before are to be dropped. */
  position(): { readonly after: number; readonly pass: number } {
    return this.#reading.position();
  }

  /** A row that is in hand or held already is left out when rows are read. */
  isInHand(id: number): boolean {
    return this.#hand.has(id);
  }

  /** About the next row behind position(). */
  judge(row: R, nowMs: number): Verdict {
    return this.#reading.judge(row, nowMs);
  }

  /** No row waits behind position(). */
  exhausted(): void {
    this.#reading.exhausted();
  }

  // ---- what goes

  /** Lanes with a row that may go before anything is scanned: retries, and rows that were held. */
  *readyRows(): Generator<{ readonly id: number; readonly row: R | undefined }> {
    for (const lane of this.#hand.lanes.in('ready')) {
      if (lane.head.kind !== 'ready') continue;
      if (lane.head.row !== undefined && !lane.topic.isOpen) this.#hand.evict(lane, lane.head.id);
      else yield lane.head;
    }
  }

  hasRoomFor(row: R): boolean {
    return this.#hand.hasRoomFor(row);
  }

  /** The broker has it. */
  taken(row: R, nowMs: number): void {
    const lane = this.#hand.lanes.of(row) ?? this.#open(row);
    if (lane.head.kind !== 'ready') {
      this.#hand.backlog.met(lane.gap, row.id);
      this.#hand.backlog.advance(row.id);
      this.#hand.backlog.found();
    }
    // Its last refusal may not have been written yet.
    const attempts = Math.max(row.attempts, lane.refusal?.attempts ?? 0);
    this.#hand.lanes.move(lane, { kind: 'flying', id: row.id, bytes: row.bytes, attempts, sinceMs: nowMs });
    lane.topic.flying++;
    this.#hand.flyingBytes += row.bytes;
  }

  #open(row: R): Lane<R> {
    const slice = this.#hand.topics.sliceOf(row);
    this.#hand.backlog.met(slice.gap, row.id);
    return this.#hand.lanes.open(row, slice);
  }

  /** A row that was to be read again does not wait any more. */
  gone(id: number): void {
    const lane = this.#hand.lanes.withHead(id);
    if (lane?.head.kind === 'ready') this.#goOn(lane);
  }

  // ---- what comes back

  /** undefined: nothing is to be written. */
  settled(id: number, outcome: Outcome, nowMs: number): Write | undefined {
    const lane = this.#hand.lanes.withHead(id);
    if (lane?.head.kind !== 'flying') return undefined;
    const { bytes } = lane.head;
    const attempts = lane.head.attempts + 1;
    this.#hand.flyingBytes -= bytes;
    lane.topic.flying--;
    switch (outcome.kind) {
      case 'acknowledged':
        lane.topic.suspect = false;
        this.#hand.lanes.move(lane, { kind: 'settled', id, sinceMs: nowMs });
        return { kind: 'published', id };
      case 'unreached':
        // It does not refuse everything; rows that nothing reaches are not to keep it closed.
        lane.topic.suspect = false;
        this.#park(lane, id, false, nowMs);
        return undefined;
      case 'refused': {
        const { reason, forever } = outcome;
        if (forever || attempts > this.#limits.maxAttempts) {
          this.#hand.lanes.move(lane, { kind: 'settled', id, sinceMs: nowMs });
          return { kind: 'dead', id, attempts, reason, topic: lane.topicName, key: lane.key };
        }
        lane.topic.suspect = true;
        lane.refusal = { reason, attempts };
        if (lane.topic.isFullOfBlocked) this.#hand.evict(lane, id);
        else this.#park(lane, id, true, nowMs);
        return { kind: 'attempt', id, attempts, reason };
      }
    }
  }

  #park(lane: Lane<R>, id: number, refused: boolean, nowMs: number): void {
    this.#hand.letGo(lane);
    const retryAtMs = nowMs + backoffMs(lane.retries++, firstRetryMs, lastRetryMs);
    this.#hand.lanes.move(lane, { kind: 'parked', id, refused, retryAtMs });
    if (refused) lane.topic.blocked++;
  }

  /** What settled() wanted written is committed. */
  written(id: number): void {
    const lane = this.#hand.lanes.withHead(id);
    if (lane?.head.kind === 'settled') this.#goOn(lane);
  }

  /** The row in hand has gone. */
  #goOn(lane: Lane<R>): void {
    lane.retries = 0;
    lane.refusal = undefined;
    const next = this.#hand.held.takeNext(lane);
    if (next !== undefined) {
      this.#hand.lanes.move(lane, { kind: 'ready', id: next.id, row: next });
    } else if (lane.gap.isEmpty) {
      this.#hand.lanes.close(lane);
    } else if (lane.slice.isOpen) {
      this.#hand.lanes.move(lane, { kind: 'hungry' });
      // The pass on its way may still come to its next row.
      if (!this.#hand.isInTurn(lane)) this.#hand.backlog.seek();
    } else {
      this.#hand.giveUp(lane);
    }
  }

  /** Parked rows whose time has come are ready; what was passed over while a topic was closed or a slice put off is sought. */
  wake(nowMs: number): void {
    for (const lane of this.#hand.lanes.in('parked')) {
      if (lane.head.kind === 'parked' && lane.head.retryAtMs <= nowMs) this.#unpark(lane);
    }
    const { backlog, topics } = this.#hand;
    const pauseMs = backlog.isPassing ? longPassMs : takeUpMs;
    if (nowMs - this.#tookUpAtMs >= pauseMs && topics.takeUpOne(nowMs)) this.#tookUpAtMs = nowMs;
    if (topics.sought().some(({ gap }) => !backlog.isWhole(gap))) backlog.seek();
  }

  /** The broker is there again: what was unreached need not wait for its time. */
  reconnected(): void {
    this.#hand.topics.takeUpAll();
    for (const lane of this.#hand.lanes.in('parked')) {
      if (lane.head.kind !== 'parked' || lane.head.refused) continue;
      lane.retries = 0;
      this.#unpark(lane);
    }
  }

  #unpark(lane: Lane<R>): void {
    if (lane.head.kind !== 'parked') return;
    if (lane.head.refused) lane.topic.blocked--;
    this.#hand.lanes.move(lane, { kind: 'ready', id: lane.head.id, row: undefined });
  }

  /** A row of the past waits again: a dead letter was requeued. */
  waitsAgain(topic: string, id: number): void {
    if (!this.#hand.backlog.isSeen(id)) return;
    for (const { gap } of this.#hand.topics.get(topic).slices) this.#hand.backlog.passOver(gap, id);
    this.#hand.backlog.seek();
  }

  // ---- what is shown

  get inFlight(): number {
    return this.#hand.inFlight;
  }

  get inFlightBytes(): number {
    return this.#hand.flyingBytes;
  }

  /** Rows and lanes in memory: what the limits bound. */
  get inMemory(): number {
    const { lanes, held } = this.#hand;
    return lanes.size + lanes.heads + held.size;
  }

  /** Lanes whose head was refused, also while it is being tried again. */
  blocked(nowMs: number): readonly BlockedLane[] {
    const blocked: BlockedLane[] = [];
    for (const { topicName: topic, key, refusal, head } of this.#hand.lanes.all()) {
      if (refusal === undefined || head.kind === 'hungry') continue;
      const retryInMs = head.kind === 'parked' ? Math.max(0, head.retryAtMs - nowMs) : 0;
      blocked.push({ topic, key, id: head.id, ...refusal, retryInMs });
    }
    return blocked;
  }
}
