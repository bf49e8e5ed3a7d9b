/** Delay before attempt n (0 is the first retry): doubling from firstMs, never above maxMs. */
export function backoffMs(attempt: number, firstMs: number, maxMs: number): number {
  return Math.min(maxMs, firstMs * 2 ** Math.min(attempt, 30));
}
