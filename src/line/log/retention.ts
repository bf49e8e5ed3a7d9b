/**
 * Removes entries that are too old, and after the limit was lowered those that are too many (what new entries push out goes
 * with their own commit, in store.ts): one small step at a time, each a call of its own so that a commit waits for one step
 * at most. Age is the time the service has run since an entry was stored, which no clock jump can touch: the wall
 * clock of a box without a battery is wrong for weeks and then right, and one such step must not empty the log. A box
 * that is switched off keeps its entries longer by that time.
 */
import type { Clock, Timer } from '../../shared/base/clock.ts';
import { messageOf } from '../../shared/base/errors.ts';
import type { Logger } from '../../shared/base/logger.ts';
import type { Appended, RemoteStore } from './store-client.ts';

interface RetentionOptions {
  readonly store: RemoteStore;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Asked again each time: they may be changed. */
  readonly limits: () => { readonly maxBytes: number; readonly maxAgeDays: number };
  readonly onPruned: (pruned: Appended) => void;
  readonly report: (error: unknown) => void;
}

const dayMs = 86_400_000;
/** Age is checked this often: a thousandth of the shortest sensible age, a day. */
const ageCheckMs = 60_000;

export class Retention {
  readonly #o: RetentionOptions;
  #timer: Timer | undefined;
  #running = false;
  #closed = false;
  #failed = false;

  constructor(options: RetentionOptions) {
    this.#o = options;
    this.#arm();
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  /** Removes what is due. Its failures are logged once, until it works again. */
  async run(): Promise<void> {
    if (this.#running || this.#closed) return;
    this.#running = true;
    try {
      while (!this.#closed && (await this.#step())) {}
      this.#failed = false;
    } catch (error) {
      this.#note(error);
    } finally {
      this.#running = false;
    }
  }

  async #step(): Promise<boolean> {
    const { store, limits, clock } = this.#o;
    const { maxBytes, maxAgeDays } = limits();
    const pruned = await store.prune({ maxBytes, maxAgeMs: maxAgeDays * dayMs, uptimeMs: clock.monoMs() });
    this.#o.onPruned(pruned);
    return pruned.more;
  }

  #note(error: unknown): void {
    if (this.#closed) return;
    this.#o.report(error);
    if (!this.#failed) this.#o.logger.warn('old log entries could not be removed', { error: messageOf(error) });
    this.#failed = true;
  }

  #arm(): void {
    this.#timer = this.#o.clock.timer(ageCheckMs, () => {
      void this.run();
      this.#arm();
    });
  }
}
