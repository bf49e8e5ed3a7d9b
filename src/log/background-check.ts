/** Checks a large log.db after the start, in a worker of its own, so that neither the start nor a commit waits for it. */
import type { Clock, Timer } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Logger } from '../base/logger.ts';
import { besideModule, WorkerHost } from '../storage/worker-host.ts';
import type { CheckCalls } from './check-worker.ts';

/** The start of everything else comes first. */
const delayMs = 5_000;
const terminateMs = 500;

export interface BackgroundCheckOptions {
  readonly dir: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onDamage: (found: string) => void;
}

export class BackgroundCheck {
  readonly #o: BackgroundCheckOptions;
  readonly #timer: Timer;
  #host: WorkerHost<CheckCalls> | undefined;
  #closed = false;

  constructor(options: BackgroundCheckOptions) {
    this.#o = options;
    this.#timer = options.clock.timer(delayMs, () => void this.#run());
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#timer.cancel();
    await this.#host?.terminate(terminateMs);
  }

  async #run(): Promise<void> {
    const host = new WorkerHost<CheckCalls>(besideModule('check-worker', import.meta.url));
    this.#host = host;
    try {
      const found = await host.call('check', { dir: this.#o.dir });
      if (this.#closed) return;
      if (found !== '') this.#o.onDamage(found);
      else this.#o.logger.debug('log.db was checked and is sound');
    } catch (error) {
      if (!this.#closed) this.#o.logger.warn('log.db could not be checked', { error: messageOf(error) });
    } finally {
      await host.terminate(terminateMs);
    }
  }
}
