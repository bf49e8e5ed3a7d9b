/**
 * How far the waiting rows were scanned, and which are to be found again. Pure.
 *
 * The scan meets each row once, in the order of the ids. A row that can be neither offered nor held is passed over, and of
 * all the rows that were passed over for a key or a topic only the lowest id is kept: its gap. A pass reads once more what
 * the scan has seen, from the lowest gap on, and finds them again. So memory is bounded by keys and topics, not by rows.
 *
 * Lowering a gap is always safe: rows are read again for nothing. A gap is raised only by a pass that has met, in order,
 * every row from there on.
 */
const noRow = Number.POSITIVE_INFINITY;

/** Rows passed over: none below `from`. */
export class Gap {
  from = noRow;
  /** The pass that has passed over a row of it last: that pass cannot close it. */
  skippedIn = 0;

  get isEmpty(): boolean {
    return this.from === noRow;
  }
}

/** A pass that is no longer needed continues for so many rows to fill up what is held. */
const idlePassRows = 1_000;

interface Pass {
  readonly number: number;
  /** It meets the rows behind this id. */
  readonly start: number;
  at: number;
  /** Rows since one that was of use. */
  idle: number;
}

export class Backlog {
  #seenTo = 0;
  #passes = 0;
  #pass: Pass | undefined;
  #isSought = false;

  /** Where reading resumes: rows behind `after`. `pass` (0: the scan) changes whenever rows read before are to be dropped. */
  get position(): { readonly after: number; readonly pass: number } {
    const pass = this.#pass;
    return pass === undefined ? { after: this.#seenTo, pass: 0 } : { after: pass.at, pass: pass.number };
  }

  get isPassing(): boolean {
    return this.#pass !== undefined;
  }

  /** A pass is to begin: there is a gap whose rows may be sent. */
  get isSought(): boolean {
    return this.#isSought;
  }

  seek(): void {
    this.#isSought = true;
  }

  isSeen(id: number): boolean {
    return id <= this.#seenTo;
  }

  /** Replaces the pass that runs, if one does. */
  beginPass(gaps: Iterable<Gap>): void {
    this.#isSought = false;
    let from = noRow;
    for (const gap of gaps) from = Math.min(from, gap.from);
    if (from === noRow) return;
    this.#pass = { number: ++this.#passes, start: from - 1, at: from - 1, idle: 0 };
  }

  /** Abandoned; what it has met need not be met again by the next one. */
  leavePass(): void {
    this.#pass = undefined;
  }

  /** It has met all that the scan has seen: a gap that it did not add to is none any more. */
  endPass(all: Iterable<{ readonly gap: Gap }>): void {
    for (const { gap } of all) if (this.isWhole(gap)) gap.from = noRow;
    this.#pass = undefined;
  }

  /** The row was scanned, and is accounted for. */
  advance(id: number): void {
    if (this.#pass === undefined) {
      this.#seenTo = id;
      return;
    }
    this.#pass.at = id;
    this.#pass.idle++;
  }

  /** The row just met was of use. */
  found(): void {
    if (this.#pass !== undefined) this.#pass.idle = 0;
  }

  get isIdle(): boolean {
    return this.#pass !== undefined && this.#pass.idle >= idlePassRows;
  }

  passOver(gap: Gap, id: number): void {
    gap.from = Math.min(gap.from, id);
    gap.skippedIn = this.#passes;
  }

  /** The row is a head or held; every row of the gap before it has been met. */
  met(gap: Gap, id: number): void {
    if (!gap.isEmpty) gap.from = id + 1;
  }

  /** Nothing is missing before the row just met: the gap is empty, or the pass has met all its rows so far. */
  isWhole(gap: Gap): boolean {
    return gap.isEmpty || (this.#pass !== undefined && this.#pass.start < gap.from && this.hasNotSkipped(gap));
  }

  /** The pass has passed over no row of it. */
  hasNotSkipped(gap: Gap): boolean {
    return gap.skippedIn !== this.#pass?.number;
  }
}
