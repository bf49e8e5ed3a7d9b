/** Gaps to and from the form that crosses threads. */
import type { LogGap } from './entry.ts';
import type { StoredGap } from './store-face.ts';
import { fromHalves, highOf, lowOf } from './uint64.ts';

export function toStored({ fromMs, toMs, ...rest }: LogGap): StoredGap {
  return {
    ...rest,
    from: { high: highOf(fromMs), low: lowOf(fromMs) },
    to: { high: highOf(toMs), low: lowOf(toMs) },
  };
}

export function fromStored({ from, to, ...rest }: StoredGap): LogGap {
  return { ...rest, fromMs: fromHalves(from.high, from.low), toMs: fromHalves(to.high, to.low) };
}
