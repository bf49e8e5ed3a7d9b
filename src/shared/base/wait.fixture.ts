/** Waiting without sleeping blindly: bounded polls, and limits on promises. */
import { setTimeout as sleep } from 'node:timers/promises';

/** Generous: two cores, and other tests beside this one. A test that passes never waits so long. */
export const LIMIT_MS = 60_000;
/** Looks come ever less often, a twentieth of the wait so far apart: many cost a request or a process. */
const [LOOK_MS, LONGEST_MS, PART] = [10, 100, 1 / 20];

/** Polls until `look` gives something true, and returns that; fails after the limit with what was waited for. */
export async function until<T>(
  what: string,
  look: () => T | Promise<T>,
  limitMs = LIMIT_MS,
): Promise<Exclude<T, false | undefined | null | 0 | ''>> {
  const begin = performance.now();
  for (;;) {
    const found = await look();
    if (found) return found as Exclude<T, false | undefined | null | 0 | ''>;
    const waitedMs = performance.now() - begin;
    if (waitedMs > limitMs) throw new Error(`not within ${limitMs} ms: ${what}`);
    await sleep(Math.min(Math.max(waitedMs * PART, LOOK_MS), LONGEST_MS));
  }
}

export async function within<T>(what: string, promise: Promise<T>, limitMs = LIMIT_MS): Promise<T> {
  const over = new AbortController();
  const late = sleep(limitMs, undefined, { signal: over.signal }).then(
    () => Promise.reject(new Error(`not within ${limitMs} ms: ${what}`)),
    () => new Promise<never>(() => {}),
  );
  try {
    return await Promise.race([promise, late]);
  } finally {
    over.abort();
  }
}
