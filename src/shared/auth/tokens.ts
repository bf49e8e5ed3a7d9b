/**
 * Bearer tokens. A token is "lsd_" and 32 random bytes; only its SHA-256 is kept. A slow hash would add nothing: those
 * protect short secrets that people choose; 2^256 random ones cannot be tried.
 */
import { createHash, randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { LinesideError, messageOf, systemCode } from '../base/errors.ts';

/**
 * viewer and operator are for the line, over gRPC and over HTTP; the others are the reference-data interface's. No role
 * implies one of the other kind: admin may read the line's state over HTTP, and never change the line.
 */
export const roles = [
  'viewer',
  'operator',
  'admin',
  'writer',
  'reader',
  'refdata-internal',
  'refdata-restricted',
] as const;
export type Role = (typeof roles)[number];

/** Roles decide what, scopes on which dictionaries: no role of the one kind implies the other. */
export function scopesOf(roles: readonly Role[]): ('PUBLIC' | 'INTERNAL' | 'RESTRICTED')[] {
  const internal = roles.includes('refdata-internal') || roles.includes('refdata-restricted');
  return [
    'PUBLIC',
    ...(internal ? (['INTERNAL'] as const) : []),
    ...(roles.includes('refdata-restricted') ? (['RESTRICTED'] as const) : []),
  ];
}

export interface StoredToken {
  readonly name: string;
  readonly roles: readonly Role[];
  /** Hash of the whole token, in lower-case hex. */
  readonly sha256: string;
  /** RFC 3339. */
  readonly createdAt: string;
}

const PREFIX = 'lsd_';
/** 256 bits. */
const SECRET_BYTES = 32;
/** The owner writes, the daemon's group may read. */
export const FILE_MODE = 0o640;
/** Changes that came through the Unix socket bear this name, and it may do everything. */
export const LOCAL = 'local';

/** Pattern of a token's name. */
export const TOKEN_NAME = '^[a-z0-9._-]{1,64}$';

export function newToken(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString('base64url');
}

export function listTokens(file: string): StoredToken[] {
  const text = readTokensFile(file);
  return text === undefined ? [] : parseTokens(file, text);
}

/** undefined: there is no such file. */
export function readTokensFile(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw unreadable(file, error);
  }
}

export function isRole(text: string): text is Role {
  return (roles as readonly string[]).includes(text);
}

export function digestOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

function unreadable(file: string, cause: unknown): LinesideError {
  return new LinesideError('CONFIG_INVALID', `cannot read the tokens in ${file}: ${messageOf(cause)}`, { cause });
}

/** CONFIG_INVALID if the text is no file of tokens. */
export function parseTokens(file: string, text: string): StoredToken[] {
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (error) {
    throw unreadable(file, error);
  }
  const list = typeof content === 'object' && content !== null && 'tokens' in content ? content.tokens : undefined;
  if (!Array.isArray(list)) throw unreadable(file, new Error('it has no list "tokens"'));
  return list.map((item: unknown) => {
    if (!isStored(item)) throw unreadable(file, new Error('it has an entry that is no token'));
    return item;
  });
}

function isStored(item: unknown): item is StoredToken {
  if (typeof item !== 'object' || item === null) return false;
  const { name, roles: given, sha256, createdAt } = item as Partial<Record<keyof StoredToken, unknown>>;
  if (typeof name !== 'string' || typeof createdAt !== 'string') return false;
  if (typeof sha256 !== 'string' || !/^[0-9a-f]{64}$/.test(sha256)) return false;
  return Array.isArray(given) && given.every((role: unknown) => typeof role === 'string' && isRole(role));
}

export function tokensText(tokens: readonly StoredToken[]): string {
  return `${JSON.stringify({ tokens }, null, 2)}\n`;
}
