/** A warning that may come thousands of times a minute: the first at once, then one line a while with a count, the last of a burst too. */
import type { Clock, Timer } from './clock.ts';
import type { Logger } from './logger.ts';

/** Logged once per this: a scan or a flood must not fill the journal. */
export const BURST_LOG_MS = 60_000;

type Fields = NonNullable<Parameters<Logger['warn']>[1]>;

export class BurstLog {
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #message: string;
  readonly #countName: string;
  #lastMs = Number.NEGATIVE_INFINITY;
  #unlogged = 0;
  /** The latest that was not logged; logged with the count when its time has come. */
  #latest: Fields | undefined;
  #timer: Timer | undefined;
  total = 0;

  constructor(clock: Clock, logger: Logger, message: string, countName: string) {
    this.#clock = clock;
    this.#logger = logger;
    this.#message = message;
    this.#countName = countName;
  }

  add(fields: Fields, count = 1): void {
    this.total += count;
    this.#unlogged += count;
    this.#latest = fields;
    const waitMs = this.#lastMs + BURST_LOG_MS - this.#clock.monoMs();
    if (waitMs <= 0) this.#log();
    else this.#timer ??= this.#clock.timer(waitMs, () => this.#log());
  }

  /** Logs all that is not logged yet. */
  stop(): void {
    this.#log();
  }

  #log(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    if (this.#latest === undefined) return;
    this.#lastMs = this.#clock.monoMs();
    this.#logger.warn(this.#message, { ...this.#latest, [this.#countName]: this.#unlogged });
    this.#latest = undefined;
    this.#unlogged = 0;
  }
}

export class AuthFailureLog extends BurstLog {
  constructor(clock: Clock, logger: Logger) {
    super(clock, logger, 'refused a caller', 'refusals');
  }

  /** `method`: a gRPC method, or an HTTP method and the pattern of its route. */
  note(method: string, peer: string, reason: string): void {
    this.add({ peer, method, reason });
  }
}
