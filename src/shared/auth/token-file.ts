/**
 * Changes of a file of tokens, the box's and the collector's: one process at a time, and on the medium before a command
 * reports success.
 */
import { fchmodSync, fchownSync, rmSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { LinesideError, messageOf } from '../base/errors.ts';
import { withFileLock } from '../base/file-lock.ts';
import { replaceSynced } from '../base/files.ts';
import {
  digestOf,
  FILE_MODE,
  isRole,
  LOCAL,
  newToken,
  parseTokens,
  readTokensFile,
  roles,
  type StoredToken,
  TOKEN_NAME,
  tokensText,
} from './tokens.ts';

/** `text`: '' of a missing file. Throws CONFIG_INVALID; what `change` throws leaves the file as it was. */
export function changeTokenFile(file: string, change: (text: string, exists: boolean) => string): void {
  withFileLock(file, () => {
    const before = readTokensFile(file);
    const text = change(before ?? '', before !== undefined);
    replace(file, text);
    // An editor, or an older lineside, takes no lock.
    if (readTokensFile(file) === text) return;
    throw new LinesideError('CONFLICT', `cannot change ${file}: another program wrote it at the same time`, {
      hint: 'Check its contents, then repeat the command.',
    });
  });
}

function replace(file: string, text: string): void {
  const temporary = join(dirname(file), `.${basename(file)}.new`);
  try {
    replaceSynced(file, text, { temporary, prepare: (fd) => keepOwner(file, fd) });
  } catch (error) {
    rmSync(temporary, { force: true });
    throw unwritable(file, error);
  }
}

/** Root runs the command, the service reads the file as another user: a new file gets its directory's group. */
function keepOwner(file: string, fd: number): void {
  const old = statSync(file, { throwIfNoEntry: false });
  if (process.getuid?.() === 0) fchownSync(fd, old?.uid ?? 0, old?.gid ?? statSync(dirname(file)).gid);
  fchmodSync(fd, (old?.mode ?? FILE_MODE) & FILE_MODE);
}

function unwritable(file: string, cause: unknown): LinesideError {
  return new LinesideError('CONFIG_INVALID', `cannot write the tokens to ${file}: ${messageOf(cause)}`, {
    cause,
    hint: 'run it as the user that owns the file, usually root',
  });
}

// The tokens of the box.

const NAME = new RegExp(TOKEN_NAME);

/** Stores a new token's hash and returns the token, which cannot be had again. */
export function addToken(file: string, name: string, wanted: readonly string[], createdAt: Date): string {
  if (!NAME.test(name)) {
    throw new LinesideError('INVALID_ARGUMENT', `"${name}" is no name for a token: 1 to 64 of a-z, 0-9, ".", "_", "-"`);
  }
  if (name === LOCAL) {
    throw new LinesideError('INVALID_ARGUMENT', `"${LOCAL}" is who comes through the Unix socket: take another name`);
  }
  const unknown = wanted.find((role) => !isRole(role));
  if (unknown !== undefined || wanted.length === 0) {
    const message = unknown === undefined ? 'a token needs a role' : `no such role: "${unknown}"`;
    throw new LinesideError('INVALID_ARGUMENT', message, { hint: `one of ${roles.join(', ')}` });
  }
  const token = newToken();
  const entry = {
    name,
    roles: [...new Set(wanted.filter(isRole))],
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

/** Rejects an unknown name with INVALID_ARGUMENT. `keepsAdmin`: and with CONFLICT the last token with the role admin. */
export function revokeToken(file: string, name: string, keepsAdmin = false): void {
  changeTokens(file, (stored) => {
    const kept = stored.filter((token) => token.name !== name);
    if (kept.length === stored.length) {
      throw new LinesideError('INVALID_ARGUMENT', `there is no token named "${name}" in ${file}`, {
        hint: 'see "lineside token list"',
      });
    }
    if (!keepsAdmin || kept.some(isAdmin) || !stored.some(isAdmin)) return kept;
    throw new LinesideError('CONFLICT', `"${name}" is the last token with the role admin`, {
      hint: `add another one first, or on the box: lineside token revoke ${name}`,
    });
  });
}

function isAdmin({ roles }: StoredToken): boolean {
  return roles.includes('admin');
}

function changeTokens(file: string, change: (stored: readonly StoredToken[]) => readonly StoredToken[]): void {
  changeTokenFile(file, (text, exists) => tokensText(change(exists ? parseTokens(file, text) : [])));
}
