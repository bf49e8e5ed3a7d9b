/** How many deliveries wait and are for review: counted once, then by what is committed. And how attempts ended since the start. */
import type { Clock, Timer } from '../../../shared/base/clock.ts';
import type { Cause } from '../face.ts';
import type { AttemptResult } from './attempt-result.ts';
import type { Counts, DispatchRows } from './delivery-rows.ts';

export interface DispatchCountsOptions {
  readonly rows: Pick<DispatchRows, 'counts'>;
  readonly clock: Clock;
  readonly onUnreadable: (error: unknown) => void;
}

/** To count 200,000 that wait takes some 10 ms: while others change them in slices, not after each slice. */
const restMs = 1_000;

export class DispatchCounts {
  readonly #o: DispatchCountsOptions;
  #counts: Counts = { waiting: 0, rejected: 0, failed: 0 };
  #asked = false;
  #restUntilMs = 0;
  #timer: Timer | undefined;
  #wrong = false;
  #stopped = false;
  deliveredTotal = 0;
  readonly attemptsTotal: Record<Cause | '', number> = {
    '': 0,
    dns: 0,
    timeout: 0,
    ssrf: 0,
    tls: 0,
    connect: 0,
    http: 0,
  };

  constructor(options: DispatchCountsOptions) {
    this.#o = options;
  }

  get now(): Counts {
    return this.#counts;
  }

  /** Committed in this turn of the loop. */
  planned(deliveries: number): void {
    this.#counts = { ...this.#counts, waiting: this.#counts.waiting + deliveries };
  }

  /** Committed in this turn of the loop. `isDeleted`: its deliveries are counted no more. */
  ended({ attempt, after, called }: AttemptResult, isDeleted: boolean): void {
    if (called) this.attemptsTotal[attempt.cause]++;
    if (after.state === 'delivered') this.deliveredTotal++;
    if (isDeleted || after.endedAt === null) return;
    const { waiting, rejected, failed } = this.#counts;
    this.#counts = {
      waiting: Math.max(0, waiting - 1),
      rejected: rejected + (after.state === 'rejected' ? 1 : 0),
      failed: failed + (after.state === 'failed' ? 1 : 0),
    };
  }

  count(): void {
    this.#restUntilMs = this.#o.clock.monoMs() + restMs;
    try {
      this.#counts = this.#o.rows.counts();
      this.#wrong = false;
    } catch (error) {
      this.#wrong = true;
      this.#o.onUnreadable(error);
    }
  }

  /** Others have changed them. Counted in a turn of its own, when the part that committed in this one has reported it as well. */
  stale(): void {
    if (this.#asked || this.#stopped) return;
    this.#asked = true;
    const go = (): void => {
      this.#asked = false;
      if (!this.#stopped) this.count();
    };
    const waitMs = this.#restUntilMs - this.#o.clock.monoMs();
    if (waitMs > 0) this.#timer = this.#o.clock.timer(waitMs, go);
    else setImmediate(go);
  }

  /** Each minute: what could not be counted. */
  repair(): void {
    if (this.#wrong) this.stale();
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }
}
