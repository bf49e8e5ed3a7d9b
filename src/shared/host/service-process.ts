/** A process of the service: its start from one Config, and its stop. */
import { endsWithin, systemClock } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Logger } from '../base/logger.ts';
import type { Config } from '../config/config.ts';
import type { HealthReport } from './health-report.ts';

export interface ServiceStart {
  readonly config: Config;
  readonly logger: Logger;
  readonly version: string;
  /** The keys or lines with a fault that the last reload found; '': the file was accepted. */
  readonly configurationRefused: () => string;
  /** Changed keys that the last reload could not apply; '': none. */
  readonly restartNeeded: () => string;
  readonly stage: (text: string) => void;
  /** Aborted when the process was asked to stop, also during its start. */
  readonly ending: AbortSignal;
  /** Stops the process as a signal does; it is started again. */
  readonly restart: (why: string) => void;
}

export interface ServiceProcess {
  /** Where it listens: "unix:/run/lineside/grpc.sock", "127.0.0.1:50051". */
  readonly addresses: readonly string[];
  readonly healthReport: HealthReport;
  /** Rejects with all failures at once. */
  stop(): Promise<void>;
}

/** Called for each part that was started. */
export type OnStop = (step: StopStep) => void;

/** Starts the parts; they are stopped in reverse order, also when the start fails. */
export async function startParts<T>(
  logger: Logger,
  start: (onStop: OnStop) => Promise<T>,
): Promise<T & Pick<ServiceProcess, 'stop'>> {
  const stops: StopStep[] = [];
  const stop = (): Promise<void> => stopAll(stops.splice(0).reverse());
  try {
    return { ...(await start((step) => stops.push(step))), stop };
  } catch (error) {
    await stop().catch((also: unknown) => logger.error('stopping after a failed start', { error: messageOf(also) }));
    throw error;
  }
}

/** Limit of a step unless it has its own; systemd's own limit comes after all of them. */
const STEP_LIMIT_MS = 6_000;

export interface StopStep {
  readonly what: string;
  readonly stop: () => Promise<void>;
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
