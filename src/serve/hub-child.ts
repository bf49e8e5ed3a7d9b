/**
 * The hub as a child process of `lineside serve`: started, restarted when it dies (later each time that it dies young), and stopped. A hub
 * outlives the `lineside serve` that started it when that one is killed: the next one stops it first and starts its own.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { type Clock, endsWithin, pause } from '../shared/base/clock.ts';
import { holderOf } from '../shared/base/data-directory.ts';
import { messageOf, systemCode } from '../shared/base/errors.ts';
import { readText } from '../shared/base/files.ts';
import type { Logger } from '../shared/base/logger.ts';
import { Loop } from '../shared/base/loop.ts';

/** The exit of a hub after SIGTERM or its own reload. */
const MEANT = 'exit status 0';

export interface HubChildOptions {
  readonly command: readonly [string, ...string[]];
  /** An earlier hub may still hold it. */
  readonly dataDir: string;
  /** From SIGTERM to SIGKILL. */
  readonly stopLimitMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
}

const FIRST_WAIT_MS = 1_000;
/** A hub that cannot start costs a process start a minute, and comes back within one when the cause is gone. */
const LONGEST_WAIT_MS = 60_000;
/** One that ran so long had started well: the next failure is a new one. */
const RAN_WELL_MS = 60_000;

export class HubChild {
  readonly #options: HubChildOptions;
  readonly #loop: Loop;
  #child: ChildProcess | undefined;
  #isReloading = false;
  readonly #stopping = new AbortController();

  constructor(options: HubChildOptions) {
    this.#options = options;
    const { clock } = options;
    this.#loop = new Loop({ pass: () => this.#run(), clock, retryFirstMs: FIRST_WAIT_MS, retryMaxMs: LONGEST_WAIT_MS });
  }

  /** Ends what an earlier service left, then starts the hub. Never fails: it keeps trying. */
  start(): void {
    void endOrphan(this.#options, this.#stopping.signal)
      .catch((error: unknown) =>
        this.#options.logger.error('cannot stop the hub of an earlier service', { error: messageOf(error) }),
      )
      .then(() => this.#loop.start());
  }

  /** The hub reloads its configuration; if keys of its own have changed it exits, and is started again. */
  reload(): void {
    this.#isReloading = true;
    this.#child?.kill('SIGHUP');
  }

  /** Resolves when the process is gone: SIGTERM, and SIGKILL after the limit. */
  async stop(): Promise<void> {
    const { clock, logger, stopLimitMs } = this.#options;
    this.#stopping.abort();
    const ended = this.#loop.stop();
    this.#child?.kill('SIGTERM');
    if (await endsWithin(clock, stopLimitMs, ended)) return;
    logger.warn('the hub does not stop: killing it', { pid: this.#child?.pid });
    this.#child?.kill('SIGKILL');
    await ended;
  }

  /** One life of the hub. To die young is to fail. */
  async #run(): Promise<number> {
    const { clock, logger } = this.#options;
    const fromMs = clock.monoMs();
    const how = await this.#live();
    const livedMs = clock.monoMs() - fromMs;
    if (!this.#stopping.signal.aborted) {
      const isMeant = this.#isReloading && how === MEANT;
      this.#isReloading = false;
      const afterS = Math.round(livedMs / 1_000);
      logger[isMeant ? 'info' : 'warn']('the hub ended and is started again', { how, afterS });
    }
    if (livedMs < RAN_WELL_MS) throw new Error(how);
    return FIRST_WAIT_MS;
  }

  /** Answers how it ended. */
  #live(): Promise<string> {
    const [program, ...given] = this.#options.command;
    const child = spawn(program, given, { stdio: ['ignore', 'inherit', 'inherit'] });
    this.#child = child;
    if (child.pid !== undefined) this.#options.logger.info('hub started', { pid: child.pid });
    return new Promise<string>((resolve) => {
      // Without a process id it could not be started, and there is no exit to come.
      child.on('error', (error) => {
        if (child.pid === undefined) resolve(error.message);
      });
      child.once('exit', (status, signal) => resolve(signal ?? `exit status ${status}`));
    }).finally(() => {
      this.#child = undefined;
    });
  }
}

// The orphan: found by its lock, known by its command line.

/** Arguments of a hub that belongs to a `lineside serve`; a hub that systemd runs is left alone. */
export const CHILD_ARGUMENTS = ['serve', '--role', 'hub', '--child'] as const;

const POLL_MS = 50;
/** After SIGKILL only a system call that hangs keeps a process. */
const KILL_LIMIT_MS = 5_000;

/** Resolves when there is no orphan any more, or none that could be ended; rejects if that is not permitted. The signal abandons it. */
async function endOrphan({ dataDir, stopLimitMs, clock, logger }: HubChildOptions, signal: AbortSignal): Promise<void> {
  const pid = holderOf(dataDir, 'hub');
  if (pid === undefined || !isOrphan(pid)) return;
  logger.info('a hub is left of a service that was killed: stopping it', { pid });
  const gone = async (withinMs: number): Promise<boolean> => {
    const end = clock.monoMs() + withinMs;
    while (isHub(pid) && !signal.aborted && clock.monoMs() < end) await pause(clock, POLL_MS, signal);
    return !isHub(pid);
  };
  send(pid, 'SIGTERM');
  if ((await gone(stopLimitMs)) || signal.aborted) return;
  logger.warn('it does not stop: killing it', { pid });
  send(pid, 'SIGKILL');
  await gone(KILL_LIMIT_MS);
}

/** A child hub whose parent is no `lineside serve` any more. */
function isOrphan(pid: number): boolean {
  if (!isHub(pid)) return false;
  const parent = Number(/^PPid:\s*(\d+)$/m.exec(readText(`/proc/${pid}/status`))?.[1]);
  return !argumentsOf(parent).includes('serve');
}

function isHub(pid: number): boolean {
  const given = argumentsOf(pid);
  const from = given.indexOf(CHILD_ARGUMENTS[0]);
  return from > 0 && CHILD_ARGUMENTS.every((argument, i) => given[from + i] === argument);
}

/** Empty for a process that is gone, or that its parent has not waited for yet (a zombie). */
function argumentsOf(pid: number): string[] {
  return readText(`/proc/${pid}/cmdline`).split('\0').slice(0, -1);
}

function send(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (systemCode(error) !== 'ESRCH') throw error;
  }
}
