/**
 * The memory that all readers together may hold in messages that their clients have not taken. Only what goes beyond a
 * reader's own allowance is charged, so that clients that never read large entries cannot stop those that read small ones.
 * First come, first served.
 */

const KIB = 1024;
const MIB = 1024 * KIB;

/** A tenth of the memory that the unit gives the line. */
export const READ_BUDGET_BYTES = 32 * MIB;
/** What every reader may hold: a page of small entries, and room for the block that filled it. */
export const READER_ALLOWANCE_BYTES = 128 * KIB;
/** An entry waits as the page that it was read in, as a message, as the frame of the message, and twice on its way through Node's streams. */
const COPIES = 5;

interface Waiting {
  readonly bytes: number;
  readonly grant: () => void;
}

/** The charge for a run or page of so many bytes. A single one may always be charged: it is below the budget. */
export function chargeOf(bytes: number): number {
  return bytes <= READER_ALLOWANCE_BYTES ? 0 : Math.min(READ_BUDGET_BYTES, COPIES * bytes);
}

export class ReadBudget {
  #freeBytes = READ_BUDGET_BYTES;
  readonly #waiting = new Set<Waiting>();

  get usedBytes(): number {
    return READ_BUDGET_BYTES - this.#freeBytes;
  }

  get waitingReaders(): number {
    return this.#waiting.size;
  }

  /** False when others wait already or too little is free: then wait(). */
  take(bytes: number): boolean {
    if (bytes === 0) return true;
    if (this.#waiting.size > 0 || bytes > this.#freeBytes) return false;
    this.#freeBytes -= bytes;
    return true;
  }

  /** Calls `grant` when the bytes were taken; the function that it gives ends the wait. */
  wait(bytes: number, grant: () => void): () => void {
    const waiting = { bytes, grant };
    this.#waiting.add(waiting);
    return () => {
      if (this.#waiting.delete(waiting)) this.#serve();
    };
  }

  give(bytes: number): void {
    if (bytes === 0) return;
    this.#freeBytes += bytes;
    this.#serve();
  }

  #serve(): void {
    for (const waiting of this.#waiting) {
      if (waiting.bytes > this.#freeBytes) return;
      this.#waiting.delete(waiting);
      this.#freeBytes -= waiting.bytes;
      waiting.grant();
    }
  }
}
