/**
 * What root's units do for an administrator who may not be there any more (an update is installed, a backup is restored), in a
 * file of /run for each: the unit writes it, the hub reads it.
 */
import { chmodSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { Clock } from './clock.ts';
import { asLinesideError, systemCode } from './errors.ts';
import { type Instant, instantOfMs } from './instant.ts';
import { objectIn } from './json.ts';

/** The RuntimeDirectory of the units: beside the helper's socket. */
export const WORK_DIR = 'lineside-work';

export interface WorkState {
  /** aborted: the process ended without an outcome; its unit writes that. */
  readonly state: 'running' | 'done' | 'failed' | 'aborted';
  readonly step: string;
  /** Of the step. */
  readonly percent: number;
  readonly begunAt: Instant;
  /** '' unless it is done. */
  readonly result: string;
  /** '' unless it failed. */
  readonly error: string;
  readonly hint: string;
}

/** Written by one process; readers see a whole state. */
export class WorkFile {
  readonly #path: string;
  #state: WorkState;

  constructor(path: string, clock: Clock) {
    this.#path = path;
    const begunAt = instantOfMs(clock.wallMs());
    this.#state = { state: 'running', step: '', percent: 0, begunAt, result: '', error: '', hint: '' };
  }

  progress(step: string, done: number, of: number): void {
    const percent = of === 0 ? 100 : Math.floor((100 * done) / of);
    if (step !== this.#state.step || percent !== this.#state.percent) this.#write({ step, percent });
  }

  done(result: string): void {
    this.#write({ state: 'done', result });
  }

  failed(thrown: unknown): void {
    const { message, hint } = asLinesideError(thrown);
    this.#write({ state: 'failed', error: message, hint });
  }

  #write(change: Partial<WorkState>): void {
    this.#state = { ...this.#state, ...change };
    const temporary = `${this.#path}.new`;
    try {
      writeFileSync(temporary, `${JSON.stringify(this.#state)}\n`);
      // Whatever the umask is: the hub reads it.
      chmodSync(temporary, 0o644);
      renameSync(temporary, this.#path);
    } catch {
      // Memory is full: the work goes on without its report.
    }
  }
}

/** null: there was none since the start of the box. */
export function readWork(path: string): WorkState | null {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return null;
    throw error;
  }
  // Only root writes there.
  return (objectIn(text) ?? null) as WorkState | null;
}
