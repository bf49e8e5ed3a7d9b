/** Which scopes are open to an actor. What is closed to it does not exist for it. Pure. */
import { LinesideError } from '../../shared/base/errors.ts';
import { type Scope, scopes } from '../outbox/event.ts';
import type { Actor } from './face.ts';
import { roleOf } from './names.ts';

export function isOpen(actor: Actor, scope: Scope): boolean {
  return scope === 'PUBLIC' || actor.scopes.includes(scope);
}

export function openScopes(actor: Actor): readonly Scope[] {
  return scopes.filter((scope) => isOpen(actor, scope));
}

/** Throws PERMISSION_DENIED where the actor would put something out of its own sight. */
export function mustBeOpen(actor: Actor, scope: Scope): void {
  if (isOpen(actor, scope)) return;
  throw new LinesideError('PERMISSION_DENIED', `${actor.name} may not put a dictionary into the scope ${scope}`, {
    hint: `The role ${roleOf(scope)} opens it.`,
  });
}

export function noDictionary(name: string): LinesideError {
  return new LinesideError('NOT_FOUND', `there is no dictionary ${shownName(name)}`);
}

/** Names come from callers: one line, of bounded length. */
export function shownName(name: string): string {
  return JSON.stringify(name.length > 128 ? `${name.slice(0, 128)}...` : name);
}
