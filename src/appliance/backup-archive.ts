/**
 * What a backup file holds: a tar of etc/ (configuration, tokens, identity, secrets), line/ and hub/ (the databases and what
 * belongs to them), and last a list of all of it with hashes. Whatever bit of the file is another one, it is found out.
 */
import { createHash } from 'node:crypto';
import { fstatSync } from 'node:fs';
import { LinesideError } from '../base/errors.ts';
import { isPlainPath, type TarEntry } from './tar.ts';
import { Cursor, tarEntries } from './tar-file.ts';

export interface BackupList {
  /** backupFormat of the lineside that made it. */
  readonly format: string;
  /** Of the lineside that made it. */
  readonly version: string;
  /** RFC 3339. */
  readonly createdAt: string;
  readonly deviceId: string;
  /** Versions of the databases that are in it. */
  readonly schema: { readonly log?: number; readonly refdata?: number };
  /** In the order of the file; directories have no hash. */
  readonly files: readonly ListedFile[];
}

export interface ListedFile {
  readonly path: string;
  readonly bytes: number;
  /** Lower-case hex; '' of a directory. */
  readonly sha256: string;
}

export const listName = 'manifest.json';
/** The list cannot contain its own hash. */
export const listHashName = 'manifest.sha256';
export const backupFormat = 'lineside-backup 1';
/** In each directory whose files a restore replaces: what comes, what goes, and the journal. Never in a backup. */
export const restoreDirName = '.restore';
/** What the set-up remembers of the card that is in this box: a restored one goes on with its own. */
export const setupDirName = 'setup';
/** A list of a hundred files has 10 KiB. */
const maxListBytes = 1024 * 1024;
const maxFiles = 1_000;

/** Besides etc/: all that there can be. */
export const dataFiles = {
  log: 'line/log.db',
  lineState: 'line/line-state.json',
  refdata: 'hub/refdata.db',
  key: 'hub/webhooks.key',
} as const;
const allowed: readonly string[] = Object.values(dataFiles);

export interface Verified {
  readonly list: BackupList;
  readonly entries: readonly TarEntry[];
}

/** Reads the file from its first byte to its last. Throws MALFORMED for anything that is not as it was written. */
export function verifyBackup(fd: number, onPiece: (bytes: number) => void): Verified {
  const { size } = fstatSync(fd);
  const entries: TarEntry[] = [];
  const found: ListedFile[] = [];
  const texts = new Map<string, string>();
  for (const { entry, content } of tarEntries(new Cursor(fd, 0, size))) {
    const isList = entry.path === listName || entry.path === listHashName;
    if (entries.length >= maxFiles) throw malformed('it has too many files');
    if (isList && entry.bytes > maxListBytes) throw malformed('its list is too long');
    const hash = createHash('sha256');
    let text = '';
    for (const piece of content) {
      hash.update(piece);
      if (isList) text += piece.toString('latin1');
      onPiece(piece.length);
    }
    if (isList) texts.set(entry.path, text);
    else {
      if (texts.size > 0) throw malformed('something follows its list');
      if (!isBackedUp(entry)) throw malformed(`${entry.path} does not belong in it`);
      entries.push(entry);
      found.push({ path: entry.path, bytes: entry.bytes, sha256: entry.isDirectory ? '' : hash.digest('hex') });
    }
  }
  const list = readList(texts.get(listName) ?? '', texts.get(listHashName) ?? '');
  if (JSON.stringify(list.files) !== JSON.stringify(found)) throw malformed('its files are not those of its list');
  if (new Set(found.map(({ path }) => path)).size !== found.length) throw malformed('a file is in it twice');
  return { list, entries };
}

function isBackedUp({ path, isDirectory }: TarEntry): boolean {
  if (!isPlainPath(path) || path.split('/').includes(restoreDirName)) return false;
  return path.startsWith('etc/') || (!isDirectory && allowed.includes(path));
}

function readList(text: string, hash: string): BackupList {
  if (text === '') throw malformed('it has no list of its files');
  const bytes = Buffer.from(text, 'latin1');
  if (hash !== `${sha256(bytes)}\n`) throw malformed('its list is damaged');
  // What the hash confirms was written by writeList; another format alone is to be told apart.
  const list = JSON.parse(bytes.toString('utf8')) as BackupList;
  if (list.format !== backupFormat) {
    throw new LinesideError('UNSUPPORTED', `the backup is of format "${list.format}"`, {
      hint: 'It was made by a newer lineside: install that version first.',
    });
  }
  return list;
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function malformed(what: string): LinesideError {
  return new LinesideError('MALFORMED', `the backup cannot be used: ${what}`, {
    hint: 'Nothing was changed. Copy it again from where it was kept.',
  });
}
