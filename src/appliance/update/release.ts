/** Versions of lineside, "1.2.3" or "1.2.3-rc.1", in their order. Pure. */

interface Version {
  readonly numbers: readonly number[];
  /** Before the release itself: ["rc", "1"]. */
  readonly before: readonly string[];
}

export function parseVersion(text: string): Version | undefined {
  const [, core, before] = /^(\d{1,9}\.\d{1,9}\.\d{1,9})(?:-([0-9A-Za-z.-]{1,64}))?$/.exec(text) ?? [];
  if (core === undefined) return undefined;
  return { numbers: core.split('.').map(Number), before: before?.split('.') ?? [] };
}

/** Below 0: `a` is older than `b`. A text that is no version is older than any, and they are equal among themselves. */
export function compareVersions(a: string, b: string): number {
  const [one, other] = [parseVersion(a), parseVersion(b)];
  if (one === undefined || other === undefined) return Number(one !== undefined) - Number(other !== undefined);
  for (const [at, number] of one.numbers.entries()) {
    const difference = number - (other.numbers[at] ?? 0);
    if (difference !== 0) return difference;
  }
  if (one.before.length === 0 || other.before.length === 0) return other.before.length - one.before.length;
  return compareBefore(one.before, other.before);
}

function compareBefore(a: readonly string[], b: readonly string[]): number {
  for (const [at, word] of a.entries()) {
    const other = b[at];
    if (other === undefined) return 1;
    const difference = compareWords(word, other);
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}

/** Numbers by value, and before words. */
function compareWords(a: string, b: string): number {
  const [one, other] = [/^\d+$/.test(a), /^\d+$/.test(b)];
  if (one && other) return Number(a) - Number(b);
  if (one !== other) return one ? -1 : 1;
  return a < b ? -1 : Number(a > b);
}
