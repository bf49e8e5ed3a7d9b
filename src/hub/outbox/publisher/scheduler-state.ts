/** All rows in hand and held, the topics and the backlog they came from, and how any of it is let go again. Pure. */
import { Backlog } from './backlog.ts';
import { HeldRows } from './held-rows.ts';
import { type Lane, LaneTable, type RowHead } from './key-queue.ts';
import { type Slice, Topics } from './topic-state.ts';

export interface LaneLimits {
  /** Bytes on their way, unacknowledged; one row always may. */
  readonly inFlightBytes: number;
  /** Keys with a row in hand. */
  readonly lanes: number;
  /** Rows and bytes held back for their lane. */
  readonly heldRows: number;
  readonly heldBytes: number;
  /** Keys of a topic that may stand refused before nothing more of it is offered. */
  readonly blockedKeys: number;
  /** Refusals after which a row is a dead letter. */
  readonly maxAttempts: number;
}

export class InFlight<R extends RowHead> {
  readonly limits: LaneLimits;
  readonly backlog = new Backlog();
  readonly topics: Topics;
  readonly lanes = new LaneTable<R>();
  readonly held: HeldRows<Lane<R>, R>;
  flyingBytes = 0;

  constructor(limits: LaneLimits) {
    this.limits = limits;
    this.topics = new Topics(limits.blockedKeys);
    this.held = new HeldRows(limits.heldRows, limits.heldBytes);
  }

  get inFlight(): number {
    return this.lanes.in('flying').size;
  }

  has(id: number): boolean {
    return this.lanes.withHead(id) !== undefined || this.held.has(id);
  }

  hasRoomFor({ bytes }: R): boolean {
    return this.inFlight === 0 || this.flyingBytes + bytes <= this.limits.inFlightBytes;
  }

  /** No earlier row of the key is missing. */
  isInTurn({ gap, slice }: Lane<R>): boolean {
    return this.backlog.isWhole(gap) && this.backlog.isWhole(slice.gap);
  }

  /** What is held for a lane is passed over instead. */
  letGo(lane: Lane<R>): void {
    const first = this.held.letGo(lane);
    if (first !== undefined) this.backlog.passOver(lane.gap, first.id);
  }

  /** A lane with nothing in hand is closed; what was passed over for it is now passed over for its slice. */
  giveUp(lane: Lane<R>): void {
    this.backlog.passOver(lane.slice.gap, lane.gap.from);
    this.lanes.close(lane);
  }

  /** The row in hand and those held are passed over too. */
  evict(lane: Lane<R>, id: number): void {
    this.letGo(lane);
    this.backlog.passOver(lane.gap, id);
    this.giveUp(lane);
  }

  /**
   * Lanes whose row was not reached make room for `needy`: all such of the other slice that waits longest. Where there is
   * none: its own, if they take more than half of all lanes; if not, those on their way are soon back. The slice is put off
   * until the first of its rows would have been tried again. Answers it; undefined: none made room.
   */
  putOffUnreached(needy: Slice): Slice | undefined {
    const slice = this.#sliceToPutOff(needy);
    if (slice === undefined) return undefined;
    let toMs = Number.POSITIVE_INFINITY;
    for (const lane of this.lanes.in('parked')) {
      if (lane.slice !== slice || lane.head.kind !== 'parked' || lane.head.refused) continue;
      toMs = Math.min(toMs, lane.head.retryAtMs);
      this.evict(lane, lane.head.id);
    }
    this.topics.defer(slice, toMs);
    return slice;
  }

  #sliceToPutOff(needy: Slice): Slice | undefined {
    let own = 0;
    for (const { head, slice } of this.lanes.in('parked')) {
      if (head.kind !== 'parked' || head.refused) continue;
      if (slice !== needy) return slice;
      own++;
    }
    return own > this.limits.lanes / 2 ? needy : undefined;
  }
}
