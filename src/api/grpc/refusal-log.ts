/** Refused callers in the operator's log: the first at once, then one line a while with a count. */
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../base/logger.ts';
import { REFUSAL_LOG_MS } from './limits.ts';

export class RefusalLog {
  readonly #clock: Clock;
  readonly #logger: Logger;
  #lastMs = Number.NEGATIVE_INFINITY;
  #unlogged = 0;

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  note(path: string, peer: string, reason: string): void {
    this.#unlogged += 1;
    if (this.#clock.monoMs() - this.#lastMs < REFUSAL_LOG_MS) return;
    this.#lastMs = this.#clock.monoMs();
    this.#logger.warn('refused a caller', { peer, method: path, reason, refusals: this.#unlogged });
    this.#unlogged = 0;
  }
}
