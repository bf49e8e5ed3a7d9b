/** The right to write refdata.db: taken at once for a plain function, held across turns by one import, the others in a queue. */
import { LinesideError } from '../../shared/base/errors.ts';

/** Changes that may wait for an import: a slow card does some 100 a second, so these are 10 s of a busy device. */
const waitLimit = 1_000;

interface Waiting {
  start(): void;
  refuse(reason: LinesideError): void;
}

export class WriteSlot {
  #queue: Waiting[] = [];
  #busy = false;
  #closed = false;
  #idle: (() => void) | undefined;

  /** Changes that wait for their turn. */
  get waiting(): number {
    return this.#queue.length;
  }

  /** Runs `work` at once, or when its turn comes. `limited`: refused with TOO_MANY when the queue is full. */
  run<T>(limited: boolean, work: () => T): Promise<T> {
    return this.#enter(limited, (release) => {
      try {
        return Promise.resolve(work());
      } catch (error) {
        return Promise.reject(error instanceof Error ? error : new Error(String(error)));
      } finally {
        release();
      }
    });
  }

  /** The slot is kept until what `work` returned is settled. */
  hold<T>(work: () => Promise<T>): Promise<T> {
    return this.#enter(true, async (release) => {
      try {
        return await work();
      } finally {
        release();
      }
    });
  }

  /** Refuses what waits and what comes; resolves when the slot is free. */
  close(): Promise<void> {
    this.#closed = true;
    for (const waiting of this.#queue.splice(0)) waiting.refuse(closing());
    if (!this.#busy) return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle = resolve;
    });
  }

  #enter<T>(limited: boolean, begin: (release: () => void) => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(closing());
    if (!this.#busy && this.#queue.length === 0) {
      this.#busy = true;
      return begin(() => this.#release());
    }
    if (limited && this.#queue.length >= waitLimit) return Promise.reject(tooMany());
    return new Promise((resolve, reject) => {
      this.#queue.push({ start: () => resolve(begin(() => this.#release())), refuse: reject });
    });
  }

  #release(): void {
    this.#busy = false;
    if (this.#closed) this.#idle?.();
    // A turn each: a thousand commits in one would hold the loop for seconds on a slow card.
    if (this.#queue.length > 0) setImmediate(() => this.#startNext());
  }

  #startNext(): void {
    if (this.#busy) return;
    const next = this.#queue.shift();
    if (next === undefined) return;
    this.#busy = true;
    next.start();
  }
}

function closing(): LinesideError {
  return new LinesideError('SHUTTING_DOWN', 'refdata.db is being closed');
}

function tooMany(): LinesideError {
  return new LinesideError('TOO_MANY', `${waitLimit} changes wait already for an import to end`, {
    hint: 'Try again when the import has ended.',
  });
}
