/**
 * Rules that hold in every dictionary: for names, titles, business keys, reasons, times and data, for what callers may see, and the
 * common refusals. Each check of a string returns the fault, or ''. Pure.
 */

import { LinesideError } from '../../shared/base/errors.ts';
import { type ExpectedVersion, requireExpected } from '../../shared/base/expected-version.ts';
import { FAR_FUTURE, type Instant, parseInstant } from '../../shared/base/instant.ts';
import { DICTIONARY_NAME, lengthFault, type Scope, scopes } from '../outbox/event.ts';
import { type Actor, PLAIN_TEXT, type Validity } from './face.ts';

const maxTitleLength = 256;
const maxKeyLength = 256;

const dictionaryName = new RegExp(DICTIONARY_NAME);
const plainText = new RegExp(PLAIN_TEXT);

export function dictionaryNameFault(name: string): string {
  return dictionaryName.test(name)
    ? ''
    : 'must begin with a lower-case letter or digit, continue with those, ".", "_" or "-", and have at most 128 characters';
}

export function titleFault(title: string): string {
  return plainTextFault(title, 1, maxTitleLength);
}

/** Compared byte for byte: "é" as one code point and as two are two keys. */
export function businessKeyFault(key: string): string {
  return plainTextFault(key, 1, maxKeyLength);
}

function plainTextFault(text: string, min: number, max: number): string {
  const length = lengthFault(text, min, max);
  if (length !== '') return length;
  return plainText.test(text) ? '' : 'must have no control characters';
}

export const notAnInstant =
  'must be an RFC 3339 time with an offset and at most six digits of a second, as in 2026-03-01T09:30:00.250000+00:00';

/** `asked`: what the caller wrote, if anything. A string is the reason of a refusal. */
export function openFrom(asked: string | undefined, txTime: Instant): Validity | string {
  if (asked === undefined) return { validFrom: txTime, validTo: FAR_FUTURE };
  const validFrom = parseInstant(asked);
  if (validFrom === undefined) return notAnInstant;
  return validFrom < FAR_FUTURE ? { validFrom, validTo: FAR_FUTURE } : 'must be before the end of time';
}

/** As JSON in UTF-8: a broker accepts messages of 1 MB by default, and an event contains the data twice. */
const maxDataBytes = 256 * 1024;

/** The data's JSON as it is stored, or its fault. Exact numbers, depth and names are the parser's task (parseExactJson). */
export function checkData(
  data: unknown,
): { readonly text: string; readonly fault?: never } | { readonly fault: string } {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return { fault: 'must be an object' };
  const text = JSON.stringify(data);
  // A UTF-16 unit is at most three bytes.
  if (text.length * 3 > maxDataBytes && new TextEncoder().encode(text).length > maxDataBytes) {
    return { fault: `must have at most ${maxDataBytes / 1024} KiB as JSON` };
  }
  return { text };
}

// For a caller, an invisible dictionary does not exist.

/** The role that opens a scope; '': none is needed. */
export function roleOf(scope: Scope): string {
  return scope === 'PUBLIC' ? '' : `refdata-${scope.toLowerCase()}`;
}

export function isVisible(actor: Actor, scope: Scope): boolean {
  return scope === 'PUBLIC' || actor.scopes.includes(scope);
}

export function visibleScopes(actor: Actor): readonly Scope[] {
  return scopes.filter((scope) => isVisible(actor, scope));
}

/** Throws PERMISSION_DENIED if the actor could not see the dictionary in this scope. */
export function requireVisible(actor: Actor, scope: Scope): void {
  if (isVisible(actor, scope)) return;
  throw new LinesideError('PERMISSION_DENIED', `${actor.name} may not put a dictionary into the scope ${scope}`, {
    hint: `The role ${roleOf(scope)} opens it.`,
  });
}

export function dictionaryNotFound(name: string): LinesideError {
  return new LinesideError('NOT_FOUND', `there is no dictionary ${quotedName(name)}`);
}

/** A caller's string on one line, of limited length. */
export function quotedName(name: string, most = 128): string {
  return JSON.stringify(name.length > most ? `${name.slice(0, most)}...` : name);
}

/** Throws INVALID_ARGUMENT with every reason, if there are any. */
export function refuseFaults(what: string, reasons: readonly string[]): void {
  if (reasons.length === 0) return;
  throw new LinesideError(
    'INVALID_ARGUMENT',
    `${what}: ${reasons.length === 1 ? reasons[0] : `${reasons.length} faults`}`,
    {
      reasons,
    },
  );
}

/** Throws VERSION_REQUIRED or STALE_VERSION. `hint`: how to find the current version. */
export function requireVersion(
  what: string,
  version: number,
  expected: ExpectedVersion | undefined,
  hint = 'Read it again, and decide again.',
): void {
  if (expected === undefined) {
    throw new LinesideError('VERSION_REQUIRED', `a change of ${what} must name its version`, {
      hint: `Read it, and send If-Match: "<version>" with the version that you have read.`,
    });
  }
  requireExpected(what, version, expected, hint);
}

/** Further faults are only counted. */
const maxListedFaults = 10_000;

export class Faults {
  readonly #listed: string[] = [];
  #more = 0;

  add(...faults: readonly string[]): void {
    for (const fault of faults) {
      if (this.#listed.length < maxListedFaults) this.#listed.push(fault);
      else this.#more++;
    }
  }

  get count(): number {
    return this.#listed.length + this.#more;
  }

  get reasons(): readonly string[] {
    return this.#more === 0 ? this.#listed : [...this.#listed, `and ${this.#more} more`];
  }
}
