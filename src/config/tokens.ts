/**
 * Bearer tokens. A token is "lsd_" and 32 random bytes; only its SHA-256 is kept. A slow hash would add nothing: those
 * protect short secrets that people choose, and nobody can try 2^256 random ones.
 */
import { createHash, randomBytes } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  closeSync,
  fsyncSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { LinesideError, messageOf, systemCode } from '../base/errors.ts';

/**
 * viewer and operator are for the line, over gRPC and over HTTP; the others are the reference-data interface's. No role
 * implies one of the other kind: admin may look at the line over HTTP, where it sees the box, and never touch it.
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

export interface StoredToken {
  readonly name: string;
  readonly roles: readonly Role[];
  /** Of the whole token, in lower-case hex. */
  readonly sha256: string;
  /** RFC 3339. */
  readonly createdAt: string;
}

const PREFIX = 'lsd_';
/** 256 bits. */
const SECRET_BYTES = 32;
/** Changes that came through the Unix socket bear this name, and it may do everything. */
export const LOCAL = 'local';
/** The daemon's group may read it, nobody else. */
export const FILE_MODE = 0o640;
const NAME = /^[a-z0-9._-]{1,64}$/;

/** Stores a new token's hash and returns the token, which cannot be had again. */
export function addToken(file: string, name: string, wanted: readonly string[], createdAt: Date): string {
  if (!NAME.test(name)) {
    throw new LinesideError('INVALID_ARGUMENT', `"${name}" is no name for a token: 1 to 64 of a-z, 0-9, ".", "_", "-"`);
  }
  if (name === LOCAL) {
    throw new LinesideError('INVALID_ARGUMENT', `"${LOCAL}" is who comes through the Unix socket: take another name`);
  }
  const given = new Set<Role>();
  for (const role of wanted) {
    if (!isRole(role)) {
      throw new LinesideError('INVALID_ARGUMENT', `no such role: "${role}"`, { hint: `roles: ${roles.join(', ')}` });
    }
    given.add(role);
  }
  if (given.size === 0) {
    throw new LinesideError('INVALID_ARGUMENT', 'a token needs a role', { hint: `roles: ${roles.join(', ')}` });
  }
  const stored = listTokens(file);
  if (stored.some((token) => token.name === name)) {
    throw new LinesideError('INVALID_ARGUMENT', `there is a token named "${name}" already`, {
      hint: 'revoke it first, or take another name',
    });
  }
  const token = newToken();
  const entry = {
    name,
    roles: [...given],
    sha256: digestOf(token).toString('hex'),
    createdAt: createdAt.toISOString(),
  };
  write(file, [...stored, entry]);
  return token;
}

export function newToken(): string {
  return PREFIX + randomBytes(SECRET_BYTES).toString('base64url');
}

export function listTokens(file: string): StoredToken[] {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return [];
    throw unreadable(file, error);
  }
  return parseTokens(file, text);
}

/** Rejects an unknown name with INVALID_ARGUMENT. */
export function revokeToken(file: string, name: string): void {
  const stored = listTokens(file);
  const kept = stored.filter((token) => token.name !== name);
  if (kept.length === stored.length) {
    throw new LinesideError('INVALID_ARGUMENT', `there is no token named "${name}"`, {
      hint: 'see "lineside token list"',
    });
  }
  write(file, kept);
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

/** The tokens in the file's text; CONFIG_INVALID where it is no such file. */
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

/** As the file has them. */
export function tokensText(tokens: readonly StoredToken[]): string {
  return `${JSON.stringify({ tokens }, null, 2)}\n`;
}

/** All or nothing, also when the power goes: a new file, flushed, then renamed over the old one. */
function write(file: string, tokens: readonly StoredToken[]): void {
  const temporary = join(dirname(file), `.tokens-${process.pid}.tmp`);
  try {
    const fd = openSync(temporary, 'w', FILE_MODE);
    try {
      writeSync(fd, tokensText(tokens));
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    chmodSync(temporary, FILE_MODE);
    keepOwner(file, temporary);
    renameSync(temporary, file);
    flushDirectory(dirname(file));
  } catch (error) {
    rmSync(temporary, { force: true });
    throw new LinesideError('CONFIG_INVALID', `cannot write the tokens to ${file}: ${messageOf(error)}`, {
      cause: error,
      hint: 'run it as the user that owns the file, usually root',
    });
  }
}

/** Root runs the command, the service reads the file as another user: the old file's owner and group stay, a new one gets its directory's group. */
function keepOwner(file: string, temporary: string): void {
  const old = statSync(file, { throwIfNoEntry: false });
  const { uid, gid } = statSync(temporary);
  const owner = old?.uid ?? uid;
  const group = old?.gid ?? statSync(dirname(file)).gid;
  if (owner !== uid || group !== gid) chownSync(temporary, owner, group);
}

/** A rename survives a power cut once its directory is flushed. */
function flushDirectory(directory: string): void {
  const fd = openSync(directory, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
