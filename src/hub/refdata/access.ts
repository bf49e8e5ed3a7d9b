/** Which scopes are open to an actor. What is closed to it does not exist for it. Pure. */
import { LinesideError } from '../../shared/base/errors.ts';
import { type Scope, scopes } from '../outbox/event.ts';
import type { Actor } from './face.ts';
import { roleOf } from './names.ts';

export function isVisible(actor: Actor, scope: Scope): boolean {
  return scope === 'PUBLIC' || actor.scopes.includes(scope);
}

export function visibleScopes(actor: Actor): readonly Scope[] {
  return scopes.filter((scope) => isVisible(actor, scope));
}

/** Throws PERMISSION_DENIED where the actor would put something out of its own sight. */
export function requireVisible(actor: Actor, scope: Scope): void {
  if (isVisible(actor, scope)) return;
  throw new LinesideError('PERMISSION_DENIED', `${actor.name} may not put a dictionary into the scope ${scope}`, {
    hint: `The role ${roleOf(scope)} opens it.`,
  });
}

export function dictionaryNotFound(name: string): LinesideError {
  return new LinesideError('NOT_FOUND', `there is no dictionary ${quotedName(name)}`);
}

/** Names come from callers: one line, of bounded length. */
export function quotedName(name: string): string {
  return JSON.stringify(name.length > 128 ? `${name.slice(0, 128)}...` : name);
}
