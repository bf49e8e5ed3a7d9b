/** What is said of subscriptions, and why a request for one is refused. Pure. */
import { LinesideError } from '../../../shared/base/errors.ts';
import { type ExpectedVersion, expectedText } from '../../../shared/base/expected-version.ts';
import type { Subscription } from '../parts.ts';

/** undefined: no id was ever written like this. */
export function idOf(text: string): number | undefined {
  return /^[1-9]\d{0,14}$/.test(text) ? Number(text) : undefined;
}

export function subjectOf({ id, name }: Subscription): string {
  return `subscription ${id} (${name})`;
}

export function noSubscription(): LinesideError {
  return new LinesideError('NOT_FOUND', 'there is no such subscription', {
    hint: 'It may have been deleted: see the audit.',
  });
}

export function tooManySubscriptions(limit: number): LinesideError {
  return new LinesideError('CONFLICT', `there are ${limit} subscriptions, and no more can be served`, {
    hint: 'Delete one that is not needed, or let one URL serve several filters.',
  });
}

export function nameTaken(name: string, id: number): LinesideError {
  return new LinesideError('CONFLICT', `there is a subscription named ${JSON.stringify(name)} already: ${id}`, {
    hint: 'Choose another name, or change that subscription: a subscriber tells its deliveries apart by the name.',
  });
}

export function refuse(what: string, reasons: readonly string[]): void {
  if (reasons.length === 0) return;
  const short = reasons.length === 1 ? reasons[0] : `${reasons.length} faults`;
  throw new LinesideError('INVALID_ARGUMENT', `${what}: ${short}`, { reasons });
}

export function staleVersion(now: number, expected: ExpectedVersion): LinesideError {
  return new LinesideError('STALE_VERSION', `the subscription has version ${now} now, not ${expectedText(expected)}`, {
    hint: 'Read it again, and decide again.',
  });
}

export function noCursor(): LinesideError {
  return new LinesideError('INVALID_ARGUMENT', 'the cursor is none of this list', {
    reasons: ['cursor must be the nextCursor of a page of the same list'],
  });
}
