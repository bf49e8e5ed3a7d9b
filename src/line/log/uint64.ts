/** Unsigned 64-bit numbers as two 32-bit halves: exact across threads and in the file, without a BigInt. */
import Long from 'long';
import type { Uint64 } from './entry.ts';

const two32 = 2 ** 32;
/** High halves below this make a number below 2^53. */
const safeHigh = 2 ** 21;

export function highOf(value: Uint64): number {
  return typeof value === 'number' ? Math.floor(value / two32) >>> 0 : value.getHighBitsUnsigned();
}

export function lowOf(value: Uint64): number {
  return typeof value === 'number' ? value >>> 0 : value.getLowBitsUnsigned();
}

/** A number below 2^53, else an unsigned Long. */
export function fromHalves(high: number, low: number): Uint64 {
  const top = high >>> 0;
  const bottom = low >>> 0;
  return top < safeHigh ? top * two32 + bottom : Long.fromBits(bottom | 0, top | 0, true);
}

/** The one form an entry carries, whatever form it came in. */
export function normalised(value: Uint64): Uint64 {
  return fromHalves(highOf(value), lowOf(value));
}

export function compareUint64(a: Uint64, b: Uint64): number {
  return highOf(a) - highOf(b) || lowOf(a) - lowOf(b);
}
