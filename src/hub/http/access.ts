/** Who may call what: each route's access, the roles that have it, and who calls: the owner of a token, or a user of the Unix socket. Pure. */
import type { TokenOwner, TokenReader } from '../../shared/auth/token-reader.ts';
import { LOCAL, type Role, roles, scopesOf } from '../../shared/auth/tokens.ts';
import { LinesideError } from '../../shared/base/errors.ts';
import { scopes } from '../outbox/event.ts';
import type { Actor } from '../refdata/face.ts';

/** viewer: who may look at the box and its line. "any role": who has any token at all. */
export type Access = 'open' | 'any role' | 'reader' | 'reader or viewer' | 'writer' | 'admin' | 'viewer' | 'operator';

/** Every route that is served. A route that is not in here cannot be registered. HEAD goes as GET. */
export const routeAccess = {
  'GET /healthz': 'open',
  'GET /readyz': 'open',
  'GET /metrics': 'open',
  'GET /openapi.json': 'open',
  'GET /': 'open',
  'GET /console': 'open',
  'GET /console/': 'open',
  'GET /console/:file': 'open',
  'GET /api/v1/whoami': 'any role',
  'GET /api/v1/line': 'viewer',
  'GET /api/v1/line/ports': 'viewer',
  'GET /api/v1/line/history': 'viewer',
  'GET /api/v1/line/log': 'viewer',
  'POST /api/v1/line/open': 'operator',
  'POST /api/v1/line/close': 'operator',
  'POST /api/v1/line/send': 'operator',
  'POST /api/v1/dictionaries': 'admin',
  'GET /api/v1/dictionaries': 'reader',
  'GET /api/v1/dictionaries/:name': 'reader',
  'PATCH /api/v1/dictionaries/:name': 'admin',
  'POST /api/v1/dictionaries/:name/drafts': 'writer',
  'GET /api/v1/dictionaries/:name/drafts': 'reader',
  'GET /api/v1/dictionaries/:name/drafts/:id': 'reader',
  'POST /api/v1/dictionaries/:name/drafts/:id/request-review': 'writer',
  'POST /api/v1/dictionaries/:name/drafts/:id/decide': 'admin',
  'POST /api/v1/dictionaries/:name/drafts/:id/publish': 'admin',
  'POST /api/v1/dictionaries/:name/drafts/:id/withdraw': 'writer',
  'POST /api/v1/dictionaries/:name/records': 'writer',
  'GET /api/v1/dictionaries/:name/records': 'reader',
  'GET /api/v1/dictionaries/:name/records/:key': 'reader',
  'PUT /api/v1/dictionaries/:name/records/:key': 'writer',
  'GET /api/v1/dictionaries/:name/records/:key/history': 'reader',
  'POST /api/v1/dictionaries/:name/records/:key/close': 'writer',
  'POST /api/v1/dictionaries/:name/bulk-close': 'writer',
  'POST /api/v1/imports': 'writer',
  'GET /api/v1/admin/outbox': 'admin',
  'GET /api/v1/admin/outbox/dead-letters': 'admin',
  'POST /api/v1/admin/outbox/dead-letters/:id/requeue': 'admin',
  'POST /api/v1/admin/outbox/dead-letters/:id/discard': 'admin',
  'GET /api/v1/admin/audit': 'admin',
  'POST /api/v1/admin/webhooks/subscriptions': 'admin',
  'GET /api/v1/admin/webhooks/subscriptions': 'admin',
  'GET /api/v1/admin/webhooks/subscriptions/:id': 'admin',
  'PATCH /api/v1/admin/webhooks/subscriptions/:id': 'admin',
  'DELETE /api/v1/admin/webhooks/subscriptions/:id': 'admin',
  'POST /api/v1/admin/webhooks/subscriptions/:id/rotate-secret': 'admin',
  'POST /api/v1/admin/webhooks/subscriptions/:id/resend': 'admin',
  'GET /api/v1/admin/webhooks/deliveries': 'admin',
  'GET /api/v1/admin/webhooks/deliveries/:id': 'admin',
  'POST /api/v1/admin/webhooks/deliveries/:id/resend': 'admin',
  'POST /api/v1/admin/webhooks/test-ping': 'admin',
  'GET /api/v1/admin/webhooks/status': 'admin',
  'GET /api/v1/admin/host': 'viewer',
  'GET /api/v1/alerts': 'reader or viewer',
} as const satisfies Readonly<Record<string, Access>>;

const rolesWith: Readonly<Record<Exclude<Access, 'open'>, readonly Role[]>> = {
  'any role': roles,
  reader: ['reader', 'writer', 'admin'],
  'reader or viewer': ['reader', 'writer', 'admin', 'viewer', 'operator'],
  writer: ['writer', 'admin'],
  admin: ['admin'],
  // Admin may look at the line, not touch it: sending to a machine needs a role of its own.
  viewer: ['viewer', 'operator', 'admin'],
  operator: ['operator'],
};

export function accessOf(method: string, url: string): Access | undefined {
  const table: Readonly<Record<string, Access | undefined>> = routeAccess;
  return table[`${method === 'HEAD' ? 'GET' : method} ${url}`];
}

export function mayCall(roles: readonly Role[], access: Access): boolean {
  return access === 'open' || roles.some((role) => rolesWith[access].includes(role));
}

const known = Object.keys(routeAccess).map((route) => {
  const [method = '', url = ''] = route.split(' ');
  const path = url.replaceAll('.', '\\.').replaceAll(/:[a-z]+/g, '[^/]*');
  return { method, pattern: new RegExp(`^${path}$`) };
});

/** The methods of a path, for Allow; empty: no route has this path. */
export function methodsOf(path: string): string[] {
  const methods = known.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method);
  return methods.includes('GET') ? [...methods, 'HEAD', 'OPTIONS'] : methods.length > 0 ? [...methods, 'OPTIONS'] : [];
}

export interface Caller extends Actor {
  readonly roles: readonly Role[];
}

/** What is looked at of a request. */
interface Asking {
  readonly raw: { readonly headers: { readonly authorization?: string | undefined } };
  readonly routeOptions: { readonly config: { readonly access?: Access } };
}

/** Who calls; UNAUTHENTICATED or PERMISSION_DENIED where it may not go on. May be asked again while an answer lasts. */
export type Authenticator = (request: Asking) => Promise<Caller>;

/** A user whom the file permissions of the Unix socket let in may do everything. */
const local: Caller = { name: LOCAL, scopes, roles };

/** `isLocal`: whether a request came through the Unix socket. */
export function authenticatorBy(tokens: TokenReader, isLocal: (request: object) => boolean): Authenticator {
  return async ({ raw, routeOptions }) =>
    isLocal(raw) ? local : callerBy(tokens, raw.headers.authorization, routeOptions.config.access ?? 'admin');
}

async function callerBy(tokens: TokenReader, authorization: string | undefined, access: Access): Promise<Caller> {
  const caller = await byToken(tokens, authorization);
  if (!mayCall(caller.roles, access)) {
    throw new LinesideError('PERMISSION_DENIED', `token "${caller.name}" has not the role ${access} that this needs`);
  }
  return { name: caller.name, scopes: scopesOf(caller.roles), roles: caller.roles };
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
