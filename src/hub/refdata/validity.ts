/**
 * When a record says what. Versions overlay each other: at a time, the record is its newest version that is valid from
 * then or before, if that version is still valid at the time. Pure.
 */
import { FAR_FUTURE, type Instant, parseInstant } from '../../shared/base/instant.ts';

export interface Validity {
  readonly validFrom: Instant;
  readonly validTo: Instant;
}

/** `asked`: what the caller wrote, if anything. A string that is answered says what is wrong with it. */
export function openFrom(asked: string | undefined, txTime: Instant): Validity | string {
  if (asked === undefined) return { validFrom: txTime, validTo: FAR_FUTURE };
  const validFrom = parseInstant(asked);
  if (validFrom === undefined) return notAnInstant;
  return validFrom < FAR_FUTURE ? { validFrom, validTo: FAR_FUTURE } : 'must be before the end of time';
}

export const notAnInstant =
  'must be an RFC 3339 time with an offset and at most six digits of a second, as in 2026-03-01T09:30:00.250000+00:00';

/** The version that closes: valid as the one before was, until now; what only lay ahead never comes to be. */
export function closedAt(before: Validity, txTime: Instant): Validity {
  return { validFrom: before.validFrom < txTime ? before.validFrom : txTime, validTo: txTime };
}
