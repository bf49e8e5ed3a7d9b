/**
 * Delay before attempt n (0 is the first retry): doubling from firstMs, never above maxMs. `random` (0 to below 1) spreads it over
 * its upper half. Pure.
 */
export function backoffMs(attempt: number, firstMs: number, maxMs: number, random?: () => number): number {
  const delayMs = Math.min(maxMs, firstMs * 2 ** Math.min(attempt, 30));
  return random === undefined ? delayMs : delayMs * (0.5 + random() / 2);
}
