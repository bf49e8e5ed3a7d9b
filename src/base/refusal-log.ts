/** Refused callers in the operator's log: the first at once, then one line a while with a count. */
import type { Clock } from './clock.ts';
import type { Logger } from './logger.ts';

/** Refused callers are logged once per this, with a count: a scan must not fill the journal. */
export const REFUSAL_LOG_MS = 60_000;

export class RefusalLog {
  readonly #clock: Clock;
  readonly #logger: Logger;
  #lastMs = Number.NEGATIVE_INFINITY;
  #unlogged = 0;

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** `method`: what was asked for; a gRPC method, or an HTTP method and the pattern of its route. */
  note(method: string, peer: string, reason: string): void {
    this.#unlogged += 1;
    if (this.#clock.monoMs() - this.#lastMs < REFUSAL_LOG_MS) return;
    this.#lastMs = this.#clock.monoMs();
    this.#logger.warn('refused a caller', { peer, method, reason, refusals: this.#unlogged });
    this.#unlogged = 0;
  }
}
