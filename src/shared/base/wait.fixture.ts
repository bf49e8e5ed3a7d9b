/** Waiting without sleeping blindly: bounded polls, and limits on promises. */
import { setTimeout as sleep } from 'node:timers/promises';

/** Generous: two cores, and other tests beside this one. A test that passes never waits so long. */
export const LIMIT_MS = 60_000;
const LOOK_MS = 10;

/** Polls until `look` gives something true, and returns that; fails after the limit with what was waited for. */
export async function until<T>(
  what: string,
  look: () => T | Promise<T>,
  limitMs = LIMIT_MS,
): Promise<Exclude<T, false | undefined | null | 0 | ''>> {
  const end = performance.now() + limitMs;
  for (;;) {
    const found = await look();
    if (found) return found as Exclude<T, false | undefined | null | 0 | ''>;
    if (performance.now() > end) throw new Error(`not within ${limitMs} ms: ${what}`);
    await sleep(LOOK_MS);
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
