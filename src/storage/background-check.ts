/** Checks a large SQLite file after the start, in a worker of its own, so that neither the start nor a commit waits for it. */
import { basename } from 'node:path';
import type { Clock, Timer } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Logger } from '../base/logger.ts';
import type { CheckCalls } from './check-worker.ts';
import { besideModule, WorkerHost } from './worker-host.ts';

/** The start of everything else comes first. */
const delayMs = 5_000;
const terminateMs = 500;

export interface BackgroundCheckOptions {
  readonly path: string;
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
    const { path, logger, onDamage } = this.#o;
    const file = basename(path);
    const host = new WorkerHost<CheckCalls>(besideModule('check-worker', import.meta.url));
    this.#host = host;
    try {
      const found = await host.call('check', { path });
      if (this.#closed) return;
      if (found !== '') onDamage(found);
      else logger.debug('checked in the background and sound', { file });
    } catch (error) {
      if (!this.#closed) logger.warn('could not be checked in the background', { file, error: messageOf(error) });
    } finally {
      await host.terminate(terminateMs);
    }
  }
}
