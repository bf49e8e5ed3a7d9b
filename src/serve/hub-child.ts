/**
 * The hub as a child process of `lineside serve`: started, restarted when it dies, and stopped, by a table of states. A hub outlives
 * the `lineside serve` that started it when that one is killed: the next one stops it first and starts its own.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { backoffMs } from '../shared/base/backoff.ts';
import { type Clock, pause, type Timer } from '../shared/base/clock.ts';
import { holderOf } from '../shared/base/data-directory.ts';
import { messageOf, systemCode } from '../shared/base/errors.ts';
import type { Logger } from '../shared/base/logger.ts';
import { readText } from '../shared/base/read-text.ts';

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

export class HubChild {
  readonly #options: HubChildOptions;
  #state: HubState = initialHub;
  #child: ChildProcess | undefined;
  #isReloading = false;
  #timer: Timer | undefined;
  readonly #stopping = new AbortController();
  readonly #ended = Promise.withResolvers<void>();

  constructor(options: HubChildOptions) {
    this.#options = options;
  }

  /** Ends what an earlier service left, then starts the hub. Never fails: it keeps trying. */
  start(): void {
    void endOrphan(this.#options, this.#stopping.signal)
      .catch((error: unknown) =>
        this.#options.logger.error('cannot stop the hub of an earlier service', { error: messageOf(error) }),
      )
      .then(() => this.#on('due'));
  }

  /** The hub reloads its configuration; if keys of its own have changed it exits, and is started again. */
  reload(): void {
    this.#isReloading = true;
    this.#child?.kill('SIGHUP');
  }

  /** Resolves when the process is gone: SIGTERM, and SIGKILL after the limit. */
  stop(): Promise<void> {
    this.#stopping.abort();
    this.#on('stop');
    return this.#ended.promise;
  }

  #on(event: HubEvent): void {
    const { state, effects } = stepHub(this.#state, event, this.#options.clock.monoMs());
    this.#state = state;
    for (const effect of effects) this.#do(effect);
  }

  #do(effect: HubEffect): void {
    switch (effect.kind) {
      case 'spawn':
        return this.#spawn();
      case 'wait':
        return this.#after(effect.ms, 'due');
      case 'terminate':
        this.#child?.kill('SIGTERM');
        return this.#after(this.#options.stopLimitMs, 'overdue');
      case 'kill':
        this.#options.logger.warn('the hub does not stop: killing it', { pid: this.#child?.pid });
        return void this.#child?.kill('SIGKILL');
      case 'end':
        this.#timer?.cancel();
        return this.#ended.resolve();
    }
  }

  #after(ms: number, event: HubEvent): void {
    this.#timer?.cancel();
    this.#timer = this.#options.clock.timer(ms, () => this.#on(event));
  }

  #spawn(): void {
    const [program, ...given] = this.#options.command;
    const { clock, logger } = this.#options;
    const fromMs = clock.monoMs();
    const child = spawn(program, given, { stdio: ['ignore', 'inherit', 'inherit'] });
    this.#child = child;
    const over = (how: string): void => {
      if (this.#child !== child) return;
      this.#child = undefined;
      this.#on('exited');
      if (this.#state.name !== 'waiting') return;
      const isMeant = this.#isReloading && how === MEANT;
      this.#isReloading = false;
      logger[isMeant ? 'info' : 'warn']('the hub ended and is started again', {
        how,
        afterS: Math.round((clock.monoMs() - fromMs) / 1_000),
      });
    };
    // Without a process id it could not be started, and there is no exit to come.
    child.once('error', (error) => {
      if (child.pid === undefined) over(error.message);
    });
    child.once('exit', (status, signal) => over(signal ?? `exit status ${status}`));
    if (child.pid !== undefined) logger.info('hub started', { pid: child.pid });
  }
}

// The states of the hub under `lineside serve`, as a table of states and events.
//
//   waiting --due--> running --exited--> waiting --...      (restarted, later each time that it dies young)
//      |                |
//     stop             stop --> stopping --overdue--> killing
//      |                           |                     |
//      +-------------------------> ended <----exited-----+

export type HubState =
  /** No process; one is started when the wait is over. `failures`: how often in a row it died young. */
  | { readonly name: 'waiting'; readonly failures: number }
  | { readonly name: 'running'; readonly failures: number; readonly sinceMs: number }
  /** SIGTERM was sent; `overdue` comes at the limit. */
  | { readonly name: 'stopping' }
  | { readonly name: 'killing' }
  | { readonly name: 'ended' };

/** `due`: the wait is over. `exited`: the process is gone, or could not be started. `overdue`: the limit of a stop. */
export type HubEvent = 'due' | 'exited' | 'stop' | 'overdue';

export type HubEffect =
  | { readonly kind: 'spawn' }
  | { readonly kind: 'wait'; readonly ms: number }
  | { readonly kind: 'terminate' }
  | { readonly kind: 'kill' }
  /** Nothing is left to wait for. */
  | { readonly kind: 'end' };

export interface HubStep {
  readonly state: HubState;
  readonly effects: readonly HubEffect[];
}

const FIRST_WAIT_MS = 1_000;
/** A hub that cannot start costs a process start a minute, and comes back within one when the cause is gone. */
const LONGEST_WAIT_MS = 60_000;
/** One that ran so long had started well: the next failure is a new one. */
const RAN_WELL_MS = 60_000;

export const initialHub: HubState = { name: 'waiting', failures: 0 };

/** `nowMs`: monotonic. An event that means nothing in a state changes nothing. */
export function stepHub(state: HubState, event: HubEvent, nowMs: number): HubStep {
  switch (state.name) {
    case 'waiting':
      if (event === 'due') return to({ name: 'running', failures: state.failures, sinceMs: nowMs }, { kind: 'spawn' });
      return event === 'stop' ? to({ name: 'ended' }, { kind: 'end' }) : to(state);
    case 'running':
      if (event === 'exited') return again(nowMs - state.sinceMs >= RAN_WELL_MS ? 0 : state.failures);
      return event === 'stop' ? to({ name: 'stopping' }, { kind: 'terminate' }) : to(state);
    case 'stopping':
      if (event === 'exited') return to({ name: 'ended' }, { kind: 'end' });
      return event === 'overdue' ? to({ name: 'killing' }, { kind: 'kill' }) : to(state);
    case 'killing':
      return event === 'exited' ? to({ name: 'ended' }, { kind: 'end' }) : to(state);
    case 'ended':
      return to(state);
  }
}

function again(failures: number): HubStep {
  const ms = backoffMs(failures, FIRST_WAIT_MS, LONGEST_WAIT_MS);
  return to({ name: 'waiting', failures: failures + 1 }, { kind: 'wait', ms });
}

function to(state: HubState, ...effects: readonly HubEffect[]): HubStep {
  return { state, effects };
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
