/** Keeps the beginnings of answers within so many bytes in all: the oldest go, their attempts stay. */
import type { ChangeStore } from '../../outbox/change-store.ts';
import type { RetentionRows } from './retention-rows.ts';

export interface AnswerLimitOptions {
  readonly store: ChangeStore;
  readonly rows: RetentionRows;
  readonly maxAnswerBytes: number;
}

/** Lengths read in one turn: some 2 ms. */
const sliceCounted = 2_000;
/** Removed in one transaction: some 2 MiB. */
const sliceRemoved = 500;

export class AnswerLimit {
  readonly #o: AnswerLimitOptions;
  #bytes = 0;
  #countedTo = 0;

  constructor(options: AnswerLimitOptions) {
    this.#o = options;
  }

  /** Of all answers up to countedTo. */
  get bytes(): number {
    return this.#bytes;
  }

  get countedTo(): number {
    return this.#countedTo;
  }

  /** Others have removed so many of those that were counted. */
  removed(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** A bounded piece of work: counts what has come, then removes what is too much. True: there is more to do. */
  async step(): Promise<boolean> {
    const { store, rows, maxAnswerBytes } = this.#o;
    if (this.#count()) return true;
    if (this.#bytes <= maxAnswerBytes) return false;
    const oldest = rows.answers(0, sliceRemoved);
    let left = oldest.length === 0 ? 0 : this.#bytes;
    let upTo = 0;
    for (const { id, bytes } of oldest) {
      if (left <= maxAnswerBytes) break;
      left -= bytes;
      upTo = id;
    }
    await store.maintain(() => rows.removeAnswers(upTo));
    this.#bytes = left;
    return left > maxAnswerBytes;
  }

  #count(): boolean {
    const come = this.#o.rows.answers(this.#countedTo, sliceCounted);
    for (const { bytes } of come) this.#bytes += bytes;
    this.#countedTo = come.at(-1)?.id ?? this.#countedTo;
    return come.length === sliceCounted;
  }
}
