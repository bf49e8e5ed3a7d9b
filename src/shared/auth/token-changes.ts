/** The commands that add and revoke a token of the box. */
import { LinesideError } from '../base/errors.ts';
import { changeTokenFile } from './token-file.ts';
import {
  digestOf,
  isRole,
  LOCAL,
  newToken,
  parseTokens,
  type Role,
  roles,
  type StoredToken,
  tokensText,
} from './tokens.ts';

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
      throw new LinesideError('INVALID_ARGUMENT', `no such role: "${role}"`, { hint: `one of ${roles.join(', ')}` });
    }
    given.add(role);
  }
  if (given.size === 0) {
    throw new LinesideError('INVALID_ARGUMENT', 'a token needs a role', { hint: `one of ${roles.join(', ')}` });
  }
  const token = newToken();
  const entry = {
    name,
    roles: [...given],
    sha256: digestOf(token).toString('hex'),
    createdAt: createdAt.toISOString(),
  };
  changeTokens(file, (stored) => {
    if (!stored.some((one) => one.name === name)) return [...stored, entry];
    throw new LinesideError('INVALID_ARGUMENT', `there is a token named "${name}" already`, {
      hint: 'revoke it first, or take another name',
    });
  });
  return token;
}

/** Rejects an unknown name with INVALID_ARGUMENT. */
export function revokeToken(file: string, name: string): void {
  changeTokens(file, (stored) => {
    const kept = stored.filter((token) => token.name !== name);
    if (kept.length < stored.length) return kept;
    throw new LinesideError('INVALID_ARGUMENT', `there is no token named "${name}" in ${file}`, {
      hint: 'see "lineside token list"',
    });
  });
}

function changeTokens(file: string, change: (stored: readonly StoredToken[]) => readonly StoredToken[]): void {
  changeTokenFile(file, (text, exists) => tokensText(change(exists ? parseTokens(file, text) : [])));
}
