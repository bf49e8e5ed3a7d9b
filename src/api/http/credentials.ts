/** Judges who calls: the owner of a bearer token, or whoever may open the Unix socket. */
import { LinesideError } from '../../base/errors.ts';
import type { TokenReader } from '../../config/token-reader.ts';
import type { Role } from '../../config/tokens.ts';
import { scopes } from '../../outbox/event.ts';
import type { Actor } from '../../refdata/face.ts';
import { type Access, mayCall, scopesOf } from './access.ts';

interface Caller {
  readonly name: string;
  readonly roles: readonly Role[];
}

/** Whoever the file permissions of the Unix socket let in may do everything. */
export const localActor: Actor = { name: 'local', scopes };

/** The actor behind the header; UNAUTHENTICATED or PERMISSION_DENIED where it may not go on. */
export async function actorBy(tokens: TokenReader, authorization: string | undefined, access: Access): Promise<Actor> {
  const caller = await byToken(tokens, authorization);
  if (!mayCall(caller.roles, access)) {
    throw new LinesideError('PERMISSION_DENIED', `token "${caller.name}" has not the role ${access} that this needs`);
  }
  return { name: caller.name, scopes: scopesOf(caller.roles) };
}

async function byToken(tokens: TokenReader, authorization: string | undefined): Promise<Caller> {
  if (authorization === undefined) {
    throw new LinesideError('UNAUTHENTICATED', 'this address asks for credentials', {
      hint: 'send the header "Authorization: Bearer TOKEN"; "lineside token add" makes one',
    });
  }
  const token = /^bearer +(\S+)$/i.exec(authorization)?.[1];
  if (token === undefined) throw new LinesideError('UNAUTHENTICATED', 'the Authorization header is not "Bearer TOKEN"');
  const owner = await tokens.find(token);
  if (owner === undefined) throw new LinesideError('UNAUTHENTICATED', 'no such token, or it was revoked');
  return owner;
}
