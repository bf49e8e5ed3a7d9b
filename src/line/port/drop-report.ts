/** Says that received packets are being dropped: at the first, then at most once a minute with their number. */
import type { Clock, Timer } from '../../shared/base/clock.ts';
import type { Logger } from '../../shared/base/logger.ts';

const REPORT_EVERY_MS = 60_000;

export class DropReport {
  readonly #clock: Clock;
  readonly #logger: Logger;
  #timer: Timer | undefined;
  #since = 0;

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  add(packets: number): void {
    this.#since += packets;
    if (this.#timer === undefined) this.#say();
  }

  end(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #say(): void {
    this.#logger.warn('receive buffer full: oldest packets dropped (they are in the log)', { packets: this.#since });
    this.#since = 0;
    this.#timer = this.#clock.timer(REPORT_EVERY_MS, () => {
      this.#timer = undefined;
      if (this.#since > 0) this.#say();
    });
  }
}
