import { LinesideError } from './errors.ts';

/**
 * The two clocks and the timers, as a value that is handed in: tests advance a fake one and never sleep.
 * The wall clock may jump by years (the Pi has no clock battery): it stamps, it never orders and never measures.
 */
export interface Clock {
  /** Milliseconds since the Unix epoch; may step either way. */
  wallMs(): number;
  /** Milliseconds since some fixed moment; never steps. */
  monoMs(): number;
  /** Calls back once after delayMs of monotonic time. */
  timer(delayMs: number, call: () => void): Timer;
}

export interface Timer {
  cancel(): void;
}

export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monoMs: () => performance.now(),
  timer(delayMs, call) {
    const handle = setTimeout(call, delayMs);
    return { cancel: () => clearTimeout(handle) };
  },
};

/** Resolves after delayMs, or at once when the signal fires (it does not reject: the caller checks the signal). */
export function pause(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      timer.cancel();
      signal?.removeEventListener('abort', done);
      resolve();
    };
    const timer = clock.timer(delayMs, done);
    signal?.addEventListener('abort', done, { once: true });
  });
}

/** Waits for work, at most limitMs: true when it completed in time. Rejects when it rejects in time; a later outcome is ignored. */
export async function endsWithin(clock: Clock, limitMs: number, work: Promise<unknown>): Promise<boolean> {
  let timer: Timer | undefined;
  const limit = new Promise<false>((resolve) => {
    timer = clock.timer(limitMs, () => resolve(false));
  });
  try {
    return await Promise.race([work.then(() => true), limit]);
  } finally {
    timer?.cancel();
  }
}

/**
 * Work whose signal fires when `signal` does, or at the limit: then it rejects with REQUEST_TIMEOUT. No AbortSignal.any: what listens
 * to one stays in memory for as long as the signals behind it.
 */
export async function withLimit<T>(
  clock: Clock,
  limitMs: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const stop = new AbortController();
  const abort = (): void => stop.abort();
  let isLate = false;
  const timer = clock.timer(limitMs, () => {
    isLate = true;
    abort();
  });
  signal?.addEventListener('abort', abort, { once: true });
  if (signal?.aborted) abort();
  try {
    return await work(stop.signal);
  } catch (error) {
    if (!isLate) throw error;
    throw new LinesideError('REQUEST_TIMEOUT', `no answer within ${Math.round(limitMs / 1_000)} s`, { cause: error });
  } finally {
    timer.cancel();
    signal?.removeEventListener('abort', abort);
  }
}
