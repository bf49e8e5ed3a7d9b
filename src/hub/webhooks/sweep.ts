/**
 * One walk over all deliveries in slices, removing what is old or nobody's and keeping the bodies of what has long been due;
 * then the subscriptions and forms it was kept for.
 */
import type { ChangeStore } from '../outbox/change-store.ts';
import type { AnswerLimit } from './answer-limit.ts';
import type { BodyLimit } from './body-limit.ts';
import type { LongDue } from './long-due.ts';
import type { Ages, RetentionRows } from './retention-rows.ts';

export interface SweepOptions {
  readonly store: ChangeStore;
  readonly rows: RetentionRows;
  readonly answers: AnswerLimit;
  readonly longDue: LongDue;
  readonly bodies: BodyLimit;
  /** Asked for each slice. */
  readonly ages: () => Ages;
  /** After each commit that removed deliveries. */
  readonly onRemoved: () => void;
}

/** Deliveries looked at in one turn: less than 2 ms. */
const sliceLooked = 2_000;
/** Forms removed in one transaction. */
const sliceForms = 500;

export class Sweep {
  readonly #o: SweepOptions;
  /** Subscriptions that were deleted when it began: behind its end they have no deliveries. */
  readonly #deleted: readonly number[];
  /** Forms that no subscription had when it began, less those of deliveries it came by: nobody's, when it has ended. */
  readonly #forms: Set<number>;
  #after = 0;
  #walked = false;
  #bodyBytes = 0;

  constructor(options: SweepOptions) {
    this.#o = options;
    this.#deleted = options.rows.deletedSubscriptions();
    this.#forms = new Set(options.rows.unusedForms());
  }

  /** Of the bodies it came by. */
  get bodyBytes(): number {
    return this.#bodyBytes;
  }

  /** A bounded piece of work. True: there is more to do. After a failure it goes on where it was. */
  async step(): Promise<boolean> {
    if (!this.#walked) {
      await this.#slice();
      return true;
    }
    if (await this.#removeForms()) return true;
    const { store, rows } = this.#o;
    if (this.#deleted.length > 0) await store.maintain(() => rows.removeSubscriptions(this.#deleted));
    return false;
  }

  async #slice(): Promise<void> {
    const { store, rows, answers, longDue, bodies, ages, onRemoved } = this.#o;
    const end = rows.sliceEnd(this.#after, sliceLooked);
    let slice = { after: this.#after, upTo: end ?? Number.MAX_SAFE_INTEGER };
    let isWhole = true;
    if (rows.removable(slice, ages()).ids.length > 0) {
      // Looked at again inside the transaction: while it waited for its turn one may have been sent again.
      const { ids, whole, bytes } = await store.maintain(() => {
        const found = rows.removable(slice, ages());
        return { ...found, bytes: rows.remove(found.ids, answers.countedTo) };
      });
      answers.removed(bytes);
      isWhole = whole;
      if (ids.length > 0) onRemoved();
      if (!whole) slice = { ...slice, upTo: ids.at(-1) ?? slice.after };
    }
    const upTo = Math.min(await longDue.keep(slice, ages().dueBefore), await bodies.cut(slice));
    if (upTo < slice.upTo) {
      isWhole = false;
      slice = { ...slice, upTo };
    }
    for (const form of rows.forms(slice)) this.#forms.delete(form);
    this.#bodyBytes += rows.bodyBytes(slice);
    if (isWhole && end === undefined) this.#walked = true;
    else this.#after = slice.upTo;
  }

  /** Deliveries that have come since the walk's last slice may have one of these forms. */
  async #removeForms(): Promise<boolean> {
    if (this.#forms.size === 0) return false;
    const { store, rows } = this.#o;
    const some = [...this.#forms].slice(0, sliceForms);
    await store.maintain(() => rows.removeForms(some, this.#after));
    for (const form of some) this.#forms.delete(form);
    return this.#forms.size > 0;
  }
}
