/** Refused callers in the operator's log: the first at once, then one line a while with a count, the last of a burst too. */
import type { Clock, Timer } from './clock.ts';
import type { Logger } from './logger.ts';

/** Refused callers are logged once per this, with a count: a scan must not fill the journal. */
export const REFUSAL_LOG_MS = 60_000;

interface Refused {
  readonly peer: string;
  readonly method: string;
  readonly reason: string;
}

export class AuthFailureLog {
  readonly #clock: Clock;
  readonly #logger: Logger;
  #lastMs = Number.NEGATIVE_INFINITY;
  #unlogged = 0;
  /** The latest failure that was not logged; logged with the count when its time has come. */
  #latest: Refused | undefined;
  #timer: Timer | undefined;
  #total = 0;

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock;
    this.#logger = logger;
  }

  /** Since the start. */
  get total(): number {
    return this.#total;
  }

  /** `method`: what was asked for; a gRPC method, or an HTTP method and the pattern of its route. */
  note(method: string, peer: string, reason: string): void {
    this.#total += 1;
    this.#unlogged += 1;
    this.#latest = { peer, method, reason };
    const waitMs = this.#lastMs + REFUSAL_LOG_MS - this.#clock.monoMs();
    if (waitMs <= 0) this.#tell();
    else this.#timer ??= this.#clock.timer(waitMs, () => this.#tell());
  }

  /** Logs all that is not logged yet. */
  stop(): void {
    this.#tell();
  }

  #tell(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#latest === undefined) return;
    this.#lastMs = this.#clock.monoMs();
    this.#logger.warn('refused a caller', { ...this.#latest, refusals: this.#unlogged });
    this.#latest = undefined;
    this.#unlogged = 0;
  }
}
