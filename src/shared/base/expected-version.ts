/** The version that a caller expects to change (If-Match, RFC 9110). Pure. */
import { LinesideError } from './errors.ts';

/** This version, one of these (of none: no version at all), or "*": whichever there is. */
export type ExpectedVersion = number | readonly number[] | '*';

/** Throws STALE_VERSION. `hint`: how to find the current version. */
export function requireExpected(what: string, version: number, expected: ExpectedVersion, hint: string): void {
  const versions = [expected].flat();
  if (expected === '*' || versions.includes(version)) return;
  const named = versions.length === 0 ? 'one that If-Match names' : versions.join(' or ');
  throw new LinesideError('STALE_VERSION', `${what} has version ${version} now, not ${named}`, { hint });
}
