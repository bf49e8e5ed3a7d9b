/**
 * The listeners of an interface. One TCP address that another process has taken does not take the service away: the
 * others serve, and the taken one is tried again until it is free.
 */
import { type Clock, pause } from './clock.ts';
import { asLinesideError, type LinesideError, systemCode } from './errors.ts';
import type { Logger } from './logger.ts';

/** Another process has the port, or the network has not given the address yet; a Unix socket has neither fault. */
const PASSING: ReadonlySet<string> = new Set(['EADDRINUSE', 'EADDRNOTAVAIL']);
/** The other process may be a test run of an hour: often enough that no start waits for long, rare enough to cost nothing. */
const RETRY_MS = 5_000;

export interface ListenersOptions<A, L> {
  readonly addresses: readonly A[];
  readonly listen: (address: A) => Promise<L>;
  readonly show: (address: A) => string;
  readonly clock: Clock;
  readonly logger: Logger;
}

export class Listeners<A, L> {
  readonly #o: ListenersOptions<A, L>;
  readonly #open: L[] = [];
  readonly #waiting = new Set<A>();
  readonly #stopping = new AbortController();
  #retrying: Promise<void> = Promise.resolve();

  constructor(options: ListenersOptions<A, L>) {
    this.#o = options;
  }

  get open(): readonly L[] {
    return this.#open;
  }

  /** What is to be said of addresses that are not served now. */
  get faults(): readonly string[] {
    return [...this.#waiting].map((address) => `NOT LISTENING on ${this.#o.show(address)}`);
  }

  /** CONFIG_INVALID: no address can be listened on, or one never will be. What was opened by then stays open. */
  async start(): Promise<void> {
    const { addresses, listen, clock, logger } = this.#o;
    let first: LinesideError | undefined;
    for (const address of addresses) {
      try {
        this.#open.push(await listen(address));
      } catch (error) {
        const known = asLinesideError(error);
        if (!PASSING.has(systemCode(known.cause))) throw error;
        first ??= known;
        this.#waiting.add(address);
        logger.error('an address is not served', { error: known.message, retry: `${RETRY_MS / 1_000}s` });
      }
    }
    if (this.#open.length === 0 && first !== undefined) throw first;
    if (this.#waiting.size > 0) this.#retrying = this.#retry(clock);
  }

  /** No address is tried any more. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#retrying;
  }

  async #retry(clock: Clock): Promise<void> {
    const { signal } = this.#stopping;
    while (this.#waiting.size > 0) {
      await pause(clock, RETRY_MS, signal);
      for (const address of this.#waiting) {
        if (signal.aborted) return;
        await this.#tryAgain(address);
      }
    }
  }

  async #tryAgain(address: A): Promise<void> {
    const { listen, show, logger } = this.#o;
    try {
      this.#open.push(await listen(address));
    } catch {
      // Reported when it was met first.
      return;
    }
    this.#waiting.delete(address);
    logger.info('an address is served again', { listen: show(address) });
  }
}
