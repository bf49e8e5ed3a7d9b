/**
 * A hub outlives the `lineside serve` that started it when that one is killed: it goes on serving, and the next
 * `lineside serve` ends it and starts its own. It is found by its lock, and known by its command line.
 */
import { readFileSync } from 'node:fs';
import { type Clock, pause } from '../shared/base/clock.ts';
import { systemCode } from '../shared/base/errors.ts';
import { holderOf } from '../shared/base/lock-file.ts';
import type { Logger } from '../shared/base/logger.ts';

/** What a hub that belongs to a `lineside serve` is started with; one that systemd runs is left alone. */
export const CHILD_ARGUMENTS = ['serve', '--role', 'hub', '--child'] as const;

const LOOK_MS = 50;
/** After SIGKILL only a system call that hangs keeps a process. */
const KILL_LIMIT_MS = 5_000;

export interface TakeoverOptions {
  readonly dataDir: string;
  /** Until the orphan is killed. */
  readonly limitMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Gives up. */
  readonly signal: AbortSignal;
}

/** Resolves when there is no orphan any more, or none that could be ended; rejects where that is not permitted. */
export async function endOrphan(options: TakeoverOptions): Promise<void> {
  const { dataDir, limitMs, clock, logger, signal } = options;
  const pid = holderOf(dataDir, 'hub');
  if (pid === undefined || !isOrphan(pid)) return;
  logger.info('a hub is left of a service that was killed: stopping it', { pid });
  const gone = async (withinMs: number): Promise<boolean> => {
    const end = clock.monoMs() + withinMs;
    while (isHub(pid) && !signal.aborted && clock.monoMs() < end) await pause(clock, LOOK_MS, signal);
    return !isHub(pid);
  };
  send(pid, 'SIGTERM');
  if ((await gone(limitMs)) || signal.aborted) return;
  logger.warn('it does not stop: killing it', { pid });
  send(pid, 'SIGKILL');
  await gone(KILL_LIMIT_MS);
}

/** A child hub whose parent is no `lineside serve` any more. */
function isOrphan(pid: number): boolean {
  if (!isHub(pid)) return false;
  const parent = Number(/^PPid:\s*(\d+)$/m.exec(read(`/proc/${pid}/status`))?.[1]);
  return !argumentsOf(parent).includes('serve');
}

function isHub(pid: number): boolean {
  const given = argumentsOf(pid);
  const from = given.indexOf(CHILD_ARGUMENTS[0]);
  return from > 0 && CHILD_ARGUMENTS.every((argument, i) => given[from + i] === argument);
}

/** Empty for a process that is gone, or that its parent has not waited for yet (a zombie). */
function argumentsOf(pid: number): string[] {
  return read(`/proc/${pid}/cmdline`).split('\0').slice(0, -1);
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function send(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (systemCode(error) !== 'ESRCH') throw error;
  }
}
