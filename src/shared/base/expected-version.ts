/** The version that a caller expects to change (If-Match, RFC 9110). Pure. */

/** This version, one of these (of none: no version at all), or "*": whichever there is. */
export type ExpectedVersion = number | readonly number[] | '*';

export function isExpected(version: number, expected: ExpectedVersion): boolean {
  return expected === '*' || [expected].flat().includes(version);
}

/** For "has version 4 now, not ...". */
export function expectedText(expected: ExpectedVersion): string {
  const versions = [expected].flat();
  return versions.length === 0 ? 'one that If-Match names' : versions.join(' or ');
}
