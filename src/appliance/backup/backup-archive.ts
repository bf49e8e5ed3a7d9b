/**
 * What a backup file holds: a tar of etc/ (configuration, tokens, identity, secrets), line/ and hub/ (the databases and what
 * belongs to them), and last a list of all of it with hashes. The hashes detect damage. They do not authenticate the file:
 * its author decides every content, so nothing else is left to the file (names, sizes, modes, owners, places).
 */
import { fstatSync, lstatSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { basename, join } from 'node:path';
import { LinesideError } from '../../shared/base/errors.ts';
import { isFileLock } from '../../shared/base/file-lock.ts';
import { parseInstant } from '../../shared/base/instant.ts';
import { objectIn } from '../../shared/base/json.ts';
import { isDeviceId } from '../../shared/config/device-id.ts';
import { type Measured, measured, sha256 } from '../hash.ts';
import { Cursor, isPlainPath, type TarEntry, tarEntries } from '../tar.ts';

export interface BackupList {
  /** backupFormat or keylessFormat of the lineside that made it. */
  readonly format: string;
  /** Of the lineside that made it. */
  readonly version: string;
  /** RFC 3339. */
  readonly createdAt: string;
  readonly deviceId: string;
  readonly schema: { readonly log?: number; readonly refdata?: number };
  /** In the order of the file. */
  readonly files: readonly ListedFile[];
}

/** A directory has 0 bytes and no hash. */
export interface ListedFile extends Measured {
  readonly path: string;
}

export const listName = 'manifest.json';
/** The list cannot contain its own hash. */
export const listHashName = 'manifest.sha256';
export const backupFormat = 'lineside-backup 1';
/** Without keys and secrets: a restore leaves those that the box has. Another name, so that an earlier lineside does not remove them. */
export const keylessFormat = 'lineside-backup 1 without keys';
/** In each directory whose files a restore replaces: new files, old files and the journal. Never in a backup. */
export const restoreDirName = '.restore';
/** What the set-up remembers of the card that is in this box: a restored one keeps its own. */
export const setupDirName = 'setup';
/** A list of a hundred files has 10 KiB. */
const maxListBytes = 1024 * 1024;
const maxFiles = 1_000;
/** Of a file below etc/: sixteen times a bundle of all public certificate authorities. */
const maxEtcFileBytes = 4 * 1024 * 1024;
/** The line's state is one JSON object of some hundred bytes. */
const maxLineStateBytes = 1024 * 1024;
/** AES-256; a test holds it to the length that the webhooks use. */
export const keyBytes = 32;

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
  const entries = new Map<string, TarEntry>();
  const found: ListedFile[] = [];
  const texts = new Map<string, string>();
  for (const { entry, content } of tarEntries(new Cursor(fd, 0, size))) {
    const isList = entry.path === listName || entry.path === listHashName;
    if (isList && entry.bytes > maxListBytes) throw malformed('its list is too long');
    if (!isList && texts.size > 0) throw malformed(`${entry.path} follows its list`);
    if (!isList) addEntry(entries, entry);
    let text = '';
    const { bytes, sha256 } = measured(content, (piece) => {
      if (isList) text += piece.toString('latin1');
      onPiece(piece.length);
    });
    if (isList) texts.set(entry.path, text);
    else found.push({ path: entry.path, bytes, sha256: entry.isDirectory ? '' : sha256 });
  }
  const list = readList(texts.get(listName) ?? '', texts.get(listHashName) ?? '');
  if (JSON.stringify(list.files) !== JSON.stringify(found)) throw malformed('its files are not those of its list');
  return { list, entries: [...entries.values()] };
}

/**
 * The part of a backup that a restore over the network may put in place, as if the backup had been made without keys: of etc/ the
 * configuration and certificates, whatever else the file holds there. Never the tokens: they decide who may do what.
 */
export function withoutSecrets(
  fd: number,
  { list, entries }: Verified,
  configName: string,
  tokens: string[],
): Verified {
  const kept = new Set(entries.filter(({ path }) => !path.startsWith('etc/') && path !== dataFiles.key).map(pathOf));
  for (const { entry, content } of tarEntries(new Cursor(fd, 0, fstatSync(fd).size))) {
    const { path, isDirectory } = entry;
    const name = path.slice('etc/'.length);
    if (!path.startsWith('etc/') || isDirectory || name.includes('/') || tokens.includes(name)) continue;
    const text = Buffer.concat(Array.from(content, (piece) => Buffer.from(piece))).toString('latin1');
    if (name === configName || isCertificates(text)) kept.add(path);
  }
  const isKept = (one: { readonly path: string }): boolean => kept.has(one.path);
  return {
    list: { ...list, format: keylessFormat, files: list.files.filter(isKept) },
    entries: entries.filter(isKept),
  };
}

const pathOf = ({ path }: TarEntry): string => path;

/** What a backup holds, for the person who decides whether to restore it. */
export function contentsOf({ list, entries }: Verified, bytes: number) {
  const bytesOf = (path: string): number | null => entries.find((one) => one.path === path)?.bytes ?? null;
  const { deviceId, version, format } = list;
  const createdAt = parseInstant(list.createdAt);
  if (createdAt === undefined) throw malformed('its list does not say when it was made');
  return {
    deviceId,
    createdAt,
    version,
    withKeys: format === backupFormat,
    bytes,
    logBytes: bytesOf(dataFiles.log),
    refdataBytes: bytesOf(dataFiles.refdata),
    configFiles: entries.filter(({ path, isDirectory }) => path.startsWith('etc/') && !isDirectory).length,
  };
}

/** Each is a file or a directory with a place of its own; an archive lists a directory before its content. */
function addEntry(entries: Map<string, TarEntry>, entry: TarEntry): void {
  const { path } = entry;
  if (entries.size >= maxFiles) throw malformed(`it has more than ${maxFiles} files`);
  if (!isBackedUp(entry)) throw malformed(`${path} does not belong in it`);
  if (entries.has(path)) throw malformed(`${path} is in it twice`);
  const above = path.slice(0, path.lastIndexOf('/'));
  const directory = entries.get(above);
  if (above.includes('/') && directory?.isDirectory !== true) {
    const is = directory === undefined ? 'missing' : 'a file';
    throw malformed(`${above} is ${is}, and ${path} lies below it`);
  }
  const fault = sizeFault(entry);
  if (fault !== '') throw malformed(`${path} has ${entry.bytes} bytes: ${fault}`);
  entries.set(path, entry);
}

function isBackedUp({ path, isDirectory }: TarEntry): boolean {
  const [top, first = ''] = path.split('/');
  if (!isPlainPath(path) || path.split('/').includes(restoreDirName)) return false;
  return top === 'etc' ? first !== '' && first !== setupDirName : !isDirectory && allowed.includes(path);
}

/** '' if there is none. */
function sizeFault({ path, bytes }: TarEntry): string {
  if (path === dataFiles.key) return bytes === keyBytes ? '' : `a key has ${keyBytes}`;
  if (path === dataFiles.lineState && bytes > maxLineStateBytes) return `at most ${maxLineStateBytes} are allowed`;
  return path.startsWith('etc/') && bytes > maxEtcFileBytes ? `at most ${maxEtcFileBytes} are allowed` : '';
}

function readList(text: string, hash: string): BackupList {
  if (text === '') throw malformed('it has no list of its files');
  const bytes = Buffer.from(text, 'latin1');
  if (hash !== `${sha256(bytes)}\n`) throw malformed('its list is damaged');
  // Its fields may still have any type.
  const list = objectIn(bytes.toString('utf8')) as BackupList | undefined;
  if (list === undefined) throw malformed('its list is not valid');
  if (list.format !== backupFormat && list.format !== keylessFormat) {
    throw new LinesideError('UNSUPPORTED', `the backup is of format ${JSON.stringify(list.format)}`, {
      hint: 'It was made by a newer lineside: install that version first.',
    });
  }
  const { version, createdAt, deviceId } = list;
  if (typeof deviceId !== 'string' || !isDeviceId(deviceId)) throw malformed('the device id in its list is not valid');
  for (const one of [version, createdAt])
    if (typeof one !== 'string' || !plainWord.test(one)) throw malformed('its list is not valid');
  return list;
}

const plainWord = /^[A-Za-z0-9.:+_-]{1,64}$/;

function malformed(what: string): LinesideError {
  return new LinesideError('MALFORMED', `the backup cannot be used: ${what}`, {
    hint: 'Nothing was changed. Copy it again from where it was kept.',
  });
}

// The files of /etc/lineside as a backup holds them: with their modes, and their owners by name.

export type SourceFile = TarEntry & { readonly source: string };

/** A directory before what is in it. Throws UNSUPPORTED for what is neither a file nor a directory. */
export function etcEntries(etcDir: string): SourceFile[] {
  const [userOf, groupOf] = [namesIn('/etc/passwd'), namesIn('/etc/group')];
  return readdirSync(etcDir, { recursive: true, encoding: 'utf8' })
    .filter((path) => !path.split('/').includes(restoreDirName) && path.split('/')[0] !== setupDirName)
    .filter((path) => !isFileLock(basename(path)))
    .sort((a, b) => (a < b ? -1 : 1))
    .map((path) => {
      const source = join(etcDir, path);
      // A link to a file is kept as what it leads to; one to a directory would not be walked.
      const stat = statSync(source);
      const isDirectory = stat.isDirectory();
      if ((isDirectory && lstatSync(source).isSymbolicLink()) || !(isDirectory || stat.isFile())) {
        throw new LinesideError('UNSUPPORTED', `${source} is neither a file nor a directory: it cannot be kept`, {
          hint: 'Move it out of there.',
        });
      }
      if (stat.size > maxEtcFileBytes && !isDirectory) {
        const limit = `a file of the configuration has at most ${maxEtcFileBytes}`;
        throw new LinesideError('TOO_LARGE', `cannot keep ${source}: it has ${stat.size} bytes, and ${limit}`, {
          hint: 'Move it out of there.',
        });
      }
      return {
        path: `etc/${path}`,
        source,
        isDirectory,
        bytes: isDirectory ? 0 : stat.size,
        mode: stat.mode,
        mtimeS: Math.max(0, Math.floor(stat.mtimeMs / 1000)),
        owner: userOf(stat.uid),
        group: groupOf(stat.gid),
      };
    });
}

/** Of etc/, what may leave the box over the network: what is known to be no secret. Directories hold the identity, keys and passwords. */
export function withoutKeys(entries: readonly SourceFile[], known: readonly string[]): SourceFile[] {
  return entries.filter(({ path, source, isDirectory }) => {
    const name = path.slice('etc/'.length);
    if (isDirectory || name.includes('/')) return false;
    return known.includes(name) || isCertificates(readFileSync(source, 'latin1'));
  });
}

/** Nothing but certificates (PEM), and comments between them. */
function isCertificates(text: string): boolean {
  const kinds = [...text.matchAll(/-----BEGIN ([^-]*)-----/g)].map(([, kind]) => kind);
  return kinds.length > 0 && kinds.every((kind) => kind === 'CERTIFICATE');
}

/** Users or groups of this machine by their numbers: the first name of each, '' if no tar file can hold it. */
function namesIn(file: string): (id: number) => string {
  const names = new Map<number, string>();
  for (const line of readFileSync(file, 'utf8').split('\n').reverse()) {
    const [name = '', , id = ''] = line.split(':');
    if (/^[A-Za-z0-9._-]{1,31}$/.test(name) && id !== '') names.set(Number(id), name);
  }
  return (id) => names.get(id) ?? '';
}
