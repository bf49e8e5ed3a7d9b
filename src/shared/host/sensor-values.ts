/** Values of the kernel's files in our terms; null and 'unknown' where they are not what was expected. Pure. */
import type { DiskFacts, SlotFacts, Told } from './host-facts.ts';

export function numberOf(text: string): number | null {
  return /^-?\d+$/.test(text) ? Number(text) : null;
}

export function hexOf(text: string): number | null {
  return /^(0x)?[0-9a-f]+$/i.test(text) ? Number.parseInt(text, 16) : null;
}

export function gapless(values: readonly (number | null)[]): number[] {
  return values.filter((value) => value !== null);
}

const underVoltageBit = 1 << 0;
/** Frequency capped, throttled, soft temperature limit. */
const throttledNowBits = (1 << 1) | (1 << 2) | (1 << 3);

/** The lower half is of now, the upper of some time since the boot. */
export function throttledBits(bits: number): { throttled: Told; underVoltage: Told } {
  return {
    throttled: (bits & throttledNowBits) === 0 ? 'no' : 'yes',
    underVoltage: (bits & underVoltageBit) === 0 ? 'no' : 'yes',
  };
}

/** "0x01 0x02": of two kinds of memory, in steps of ten percent; 0x0b: more than all of it. 0x00: not told. */
export function lifeUsedOf(text: string): number | null {
  const steps = text.split(/\s+/).map((part) => (/^0x[0-9a-f]+$/i.test(part) ? Number.parseInt(part, 16) : 0));
  const worst = Math.max(0, ...steps.filter((step) => step >= 1 && step <= 11));
  return worst === 0 ? null : worst * 10;
}

const reserves: Readonly<Record<number, DiskFacts['reserve']>> = { 1: 'normal', 2: 'warning', 3: 'urgent' };

export function reserveOf(text: string): DiskFacts['reserve'] {
  return reserves[hexOf(text) ?? 0] ?? 'unknown';
}

/** Lines "SLOT=a", "TRYING=yes", "DATA=lost", "FAILED=b". */
export function slotOf(text: string): SlotFacts | null {
  const facts = new Map(
    text.split('\n').flatMap((line) => {
      const found = /^([A-Z_]+)=(.*)$/.exec(line.trim());
      return found === null ? [] : [[found[1] ?? '', found[2] ?? ''] as const];
    }),
  );
  const name = facts.get('SLOT');
  if (name === undefined) return null;
  return {
    name,
    trying: facts.get('TRYING') === 'yes',
    dataLost: facts.get('DATA') === 'lost',
    updateFailed: (facts.get('FAILED') ?? '') !== '',
  };
}
