/** Checks a large SQLite file after the start, in a process of its own, so that neither the start, a commit nor a stop waits for it. */
import { type ChildProcess, execFile } from 'node:child_process';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { type Clock, endsWithin, type Timer } from '../base/clock.ts';
import type { Logger } from '../base/logger.ts';
import { besideModule } from './worker-host.ts';

/** The start of everything else comes first. */
const delayMs = 5_000;
/** A killed process that the card holds in a system call ends later: a stop does not wait for it. */
const killedMs = 500;
/** Signals that end the whole service (systemd's stop, Ctrl-C, a closed terminal) end the check too, possibly before the service. */
const stopSignals: readonly unknown[] = ['SIGTERM', 'SIGINT', 'SIGHUP'];

export interface BackgroundCheckOptions {
  readonly path: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly onDamage: (found: string) => void;
}

export class BackgroundCheck {
  readonly #o: BackgroundCheckOptions;
  readonly #timer: Timer;
  #child: ChildProcess | undefined;
  #running = Promise.resolve();
  #closed = false;

  constructor(options: BackgroundCheckOptions) {
    this.#o = options;
    this.#timer = options.clock.timer(delayMs, () => {
      this.#running = this.#run();
    });
  }

  /** Kills the check: it only reads. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#timer.cancel();
    if (this.#child === undefined) return;
    this.#child.kill('SIGKILL');
    if (await endsWithin(this.#o.clock, killedMs, this.#running)) return;
    this.#child.unref();
    for (const pipe of this.#child.stdio) pipe?.destroy();
  }

  async #run(): Promise<void> {
    const { path, logger, onDamage } = this.#o;
    const file = basename(path);
    const program = fileURLToPath(besideModule('check-process', import.meta.url));
    const args = [...process.execArgv, program, path, String(process.pid)];
    try {
      const answer = run(process.execPath, args);
      this.#child = answer.child;
      const { stdout: found } = await answer;
      if (this.#closed) return;
      if (found !== '') onDamage(found);
      else logger.debug('checked in the background and sound', { file });
    } catch (error) {
      const failed = error as { signal?: unknown; stderr?: string; message: string };
      if (this.#closed || stopSignals.includes(failed.signal)) return;
      logger.warn('could not be checked in the background', { file, error: failed.stderr || failed.message });
    }
  }
}

const run = promisify(execFile);
