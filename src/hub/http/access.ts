/** The roles that have each access, and the caller of a request: the owner of a token, or a user of the Unix socket. Pure. */
import type { TokenOwner, TokenReader } from '../../shared/auth/token-reader.ts';
import { LOCAL, type Role, roles, scopesOf } from '../../shared/auth/tokens.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { scopes } from '../outbox/event.ts';
import type { Actor } from '../refdata/face.ts';

/** viewer: may read the state of the box and its line. "any role": any token. */
export type Access = 'open' | 'any role' | 'reader' | 'reader or viewer' | 'writer' | 'admin' | 'viewer' | 'operator';

const rolesWith: Readonly<Record<Exclude<Access, 'open'>, readonly Role[]>> = {
  'any role': roles,
  reader: ['reader', 'writer', 'admin'],
  'reader or viewer': ['reader', 'writer', 'admin', 'viewer', 'operator'],
  writer: ['writer', 'admin'],
  admin: ['admin'],
  // An admin may read the line, not change it: sending to a machine needs a role of its own.
  viewer: ['viewer', 'operator', 'admin'],
  operator: ['operator'],
};

export function mayCall(roles: readonly Role[], access: Access): boolean {
  return access === 'open' || roles.some((role) => rolesWith[access].includes(role));
}

export interface Caller extends Actor {
  readonly roles: readonly Role[];
}

interface AccessRequest {
  readonly raw: { readonly headers: { readonly authorization?: string | undefined } };
  readonly routeOptions: { readonly config: { readonly access?: Access } };
}

/** Answers the caller. Rejects with UNAUTHENTICATED or PERMISSION_DENIED. Long answers call it again. */
export type Authenticator = (request: AccessRequest) => Promise<Caller>;

/** The file permissions of the Unix socket decide who is local; a local user may do everything. */
const local: Caller = { name: LOCAL, scopes, roles };

/** `isLocal`: whether a request came through the Unix socket. */
export function authenticatorBy(tokens: TokenReader, isLocal: (request: object) => boolean): Authenticator {
  return async ({ raw, routeOptions }) => {
    if (isLocal(raw)) return local;
    const access = routeOptions.config.access ?? 'admin';
    const { name, roles } = await byToken(tokens, raw.headers.authorization);
    if (!mayCall(roles, access))
      throw new LinesideError('PERMISSION_DENIED', `token "${name}" has not the role ${access} that this needs`);
    return { name, scopes: scopesOf(roles), roles };
  };
}

async function byToken(tokens: TokenReader, authorization: string | undefined): Promise<TokenOwner> {
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
