/** The shutdown of a process: every step in reverse order of the start, each with a limit, all failures reported at once. */
import { endsWithin, systemClock } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';

/** Limit of a step unless it has its own; systemd's own limit comes after all of them. */
const STEP_LIMIT_MS = 6_000;

export interface StopStep {
  readonly what: string;
  readonly stop: () => Promise<void>;
  /** Default: 6 s. */
  readonly limitMs?: number;
}

/** Every step runs, whatever the others did. Rejects with all failures at once. */
export async function stopAll(steps: readonly StopStep[]): Promise<void> {
  const failures: Error[] = [];
  for (const { what, stop, limitMs = STEP_LIMIT_MS } of steps) {
    try {
      if (!(await endsWithin(systemClock, limitMs, stop()))) throw new Error(`did not stop within ${limitMs} ms`);
    } catch (error) {
      failures.push(new Error(`${what}: ${messageOf(error)}`, { cause: error }));
    }
  }
  if (failures.length > 0) throw new AggregateError(failures, failures.map((failure) => failure.message).join('; '));
}
