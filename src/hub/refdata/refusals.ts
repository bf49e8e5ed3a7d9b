/** What callers may see, and common refusals. For a caller, an invisible dictionary does not exist. Pure. */
import { LinesideError } from '../../shared/base/errors.ts';
import { type ExpectedVersion, requireExpected } from '../../shared/base/expected-version.ts';
import { type Scope, scopes } from '../outbox/event.ts';
import type { Actor } from './face.ts';

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
