/** Makes a backup beside the running service: consistent, verified, and there whole or not at all. */
import { createHash } from 'node:crypto';
import { existsSync, fsyncSync, mkdirSync, renameSync, rmSync, type Stats, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { LinesideError, messageOf } from '../../shared/base/errors.ts';
import { instantOfMs } from '../../shared/base/instant.ts';
import { dropPages } from '../../shared/base/libc.ts';
import { versionOf } from '../../shared/storage/migrate.ts';
import { closeQuietly, openReadOnly, quickCheck } from '../../shared/storage/open.ts';
import { asOwnerOf, demandRoom, opened, syncPath, writeWhole } from '../disk.ts';
import { hashed, sha256 } from '../hash.ts';
import { filePieces, plainFile, type TarEntry, tarEndBytes, tarEntryPieces } from '../tar.ts';
import {
  type BackupList,
  backupFormat,
  dataFiles,
  etcEntries,
  keylessFormat,
  type ListedFile,
  listHashName,
  listName,
  type SourceFile,
  verifyBackup,
  withoutKeys,
} from './backup-archive.ts';
import type { DataPaths } from './data-paths.ts';

export interface BackupOptions {
  readonly out: string;
  readonly paths: DataPaths;
  readonly withLog: boolean;
  /** false: without identity, private keys and secrets, for a file that leaves the box over the network. */
  readonly withKeys: boolean;
  readonly version: string;
  readonly nowMs: number;
  readonly onProgress: (what: string, doneBytes: number, ofBytes: number) => void;
}

/** Headers, the list, and what the databases grow by meanwhile. */
const slackBytes = 16 * 1024 * 1024;
const fileMode = 0o600;

/** A list of what it holds; `out` is replaced where it is there already. Throws STORAGE_FULL, STORAGE_DAMAGED, STORAGE_FAILED. */
export async function makeBackup(options: BackupOptions): Promise<BackupList> {
  const out = resolve(options.out);
  // On the target's medium: the box itself may have no room for a second log.
  const work = join(dirname(out), `.${basename(out)}.new`);
  for (const dir of [dirname(out), options.paths.etcDir]) {
    if (!existsSync(dir)) throw new LinesideError('NOT_FOUND', `cannot make a backup: there is no directory ${dir}`);
  }
  const databases = databasesIn(options);
  const small = smallFiles(options);
  // Of a backup that was cut short.
  rmSync(work, { recursive: true, force: true });
  checkSpace(out, databases, small);
  mkdirSync(work, { mode: 0o700 });
  try {
    const path = join(work, 'backup');
    const list = await write(path, databases, small, options);
    verify(path, options);
    renameSync(path, out);
    syncPath(dirname(out));
    return list;
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

interface SourceDatabase {
  readonly name: 'log' | 'refdata';
  readonly source: string;
}

function databasesIn({ paths, withLog }: BackupOptions): SourceDatabase[] {
  const log = { name: 'log', source: join(paths.lineDir, 'log.db') } as const;
  const refdata = { name: 'refdata', source: join(paths.hubDir, 'refdata.db') } as const;
  return [...(withLog ? [log] : []), refdata].filter(({ source }) => statOf(source) !== undefined);
}

async function write(
  path: string,
  databases: readonly SourceDatabase[],
  small: readonly SourceFile[],
  options: BackupOptions,
): Promise<BackupList> {
  const { version, nowMs, paths, withKeys, onProgress } = options;
  const mtimeS = Math.floor(nowMs / 1000);
  using archive = opened(path, 'wx', fileMode);
  const { fd } = archive;
  const files: ListedFile[] = [];
  for (const file of small) files.push(asOwnerOf(dirname(file.source), () => addFile(fd, file)));
  const schema: { log?: number; refdata?: number } = {};
  for (const { name, source } of databases) {
    const copy = join(dirname(path), `${name}.db`);
    schema[name] = await copyDatabase(source, copy, (done, of) => onProgress(`reading ${name}.db`, done, of));
    files.push(addFile(fd, { ...plainFile(dataFiles[name], statSync(copy).size, mtimeS), source: copy }));
    rmSync(copy);
  }
  const createdAt = instantOfMs(nowMs);
  const list = {
    format: withKeys ? backupFormat : keylessFormat,
    version,
    createdAt,
    deviceId: paths.deviceId,
    schema,
    files,
  };
  endArchive(fd, list, mtimeS);
  return list;
}

/** From the medium, not from memory. */
function verify(path: string, { onProgress }: BackupOptions): void {
  using file = opened(path, 'r');
  try {
    dropPages(file.fd);
    const { size } = statSync(path);
    let done = 0;
    verifyBackup(file.fd, (bytes) => onProgress('reading the backup back', (done += bytes), size));
  } catch (error) {
    throw new LinesideError('STORAGE_FAILED', `the backup does not read as it was written: ${messageOf(error)}`, {
      cause: error,
      hint: 'The medium that it was written to is failing: take another one.',
    });
  }
}

function addFile(fd: number, file: SourceFile): ListedFile {
  const { path, bytes, source, isDirectory } = file;
  const hash = createHash('sha256');
  writeEntry(fd, file, isDirectory ? [] : hashed(filePieces(source, bytes), hash));
  return { path, bytes, sha256: isDirectory ? '' : hash.digest('hex') };
}

function endArchive(fd: number, list: BackupList, mtimeS: number): void {
  const text = Buffer.from(`${JSON.stringify(list, null, 1)}\n`);
  const hash = Buffer.from(`${sha256(text)}\n`);
  writeEntry(fd, plainFile(listName, text.length, mtimeS), [text]);
  writeEntry(fd, plainFile(listHashName, hash.length, mtimeS), [hash]);
  writeWhole(fd, Buffer.alloc(tarEndBytes));
  fsyncSync(fd);
}

function writeEntry(fd: number, entry: TarEntry, content: Iterable<Buffer>): void {
  for (const piece of tarEntryPieces(entry, content)) writeWhole(fd, piece);
}

function smallFiles({ paths, withKeys }: BackupOptions): SourceFile[] {
  const { lineDir, keyFile, etcDir, publicFiles } = paths;
  const etc = etcEntries(etcDir);
  const places: [string, string][] = [[dataFiles.lineState, join(lineDir, 'line-state.json')]];
  // In etc/ already where the configuration puts it there.
  if (withKeys && !keyFile.startsWith(`${etcDir}/`)) places.push([dataFiles.key, keyFile]);
  const data = places.flatMap(([path, source]) => {
    const stat = statOf(source);
    return stat === undefined ? [] : [{ ...plainFile(path, stat.size, Math.floor(stat.mtimeMs / 1000)), source }];
  });
  return [...(withKeys ? etc : withoutKeys(etc, publicFiles)), ...data];
}

/** undefined if it does not exist. Throws UNSUPPORTED for a pipe and the like, whose reader would wait. */
function statOf(source: string): Stats | undefined {
  const stat = asOwnerOf(dirname(source), () => statSync(source, { throwIfNoEntry: false }));
  if (stat === undefined || stat.isFile()) return stat;
  throw new LinesideError('UNSUPPORTED', `${source} is no file: it cannot be kept`, { hint: 'Look who put it there.' });
}

function checkSpace(out: string, databases: readonly SourceDatabase[], small: readonly SourceFile[]): void {
  const sizes = databases.map(({ source }) => bytesOf(source) + bytesOf(`${source}-wal`));
  const sum = (numbers: readonly number[]): number => numbers.reduce((all, one) => all + one, 0);
  // One database at a time lies there twice.
  const needed = sum(sizes) + Math.max(0, ...sizes) + sum(small.map(({ bytes }) => bytes)) + slackBytes;
  demandRoom(dirname(out), needed, 'the backup', 'Name a file on a larger medium; --no-log leaves the serial log out.');
}

function bytesOf(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

// One database of a running service into a file of its own, as it was at one moment.

const sliceBytes = 1024 * 1024;
/**
 * While the copy is made the service's write-ahead log cannot be begun again: it grows by what is written. The line stops
 * storing entries when it has grown by a quarter of the log (at least 12 MiB): the copy is abandoned well before.
 */
const minWalGrowthBytes = 8 * 1024 * 1024;
const walGrowthDivisor = 8;

/**
 * One read transaction for all slices: SQLite would begin the copy again after each commit of another process, and beside a
 * busy line never end. Writers are not held up by a reader. Answers the version of its schema. Throws STORAGE_DAMAGED where the
 * copy is not sound.
 */
async function copyDatabase(source: string, target: string, onProgress: (doneBytes: number, ofBytes: number) => void) {
  const dir = dirname(source);
  const connection = asOwnerOf(dir, () => openReadOnly(source));
  try {
    // SQLite opens what lies beside the file, and makes it where it is missing: all of that before the copy begins.
    asOwnerOf(dir, () => {
      connection.exec('BEGIN');
      connection.prepare('SELECT count(*) FROM sqlite_schema').get();
    });
    const pageSize = Number(connection.pragma('page_size', { simple: true }));
    const pages = Math.max(1, Math.floor(sliceBytes / pageSize));
    const version = versionOf(connection);
    const wal = `${source}-wal`;
    const started = bytesOf(wal);
    const mostGrowth = Math.max(minWalGrowthBytes, statSync(source).size / walGrowthDivisor);
    await connection.backup(target, {
      progress({ totalPages, remainingPages }) {
        onProgress((totalPages - remainingPages) * pageSize, totalPages * pageSize);
        if (bytesOf(wal) - started <= mostGrowth) return pages;
        throw new LinesideError('STORAGE_FAILED', `${source} is written to faster than it can be copied`, {
          hint: 'Take a faster medium, or a quieter hour; --no-log leaves the serial log out.',
        });
      },
    });
    check(source, target);
    return version;
  } finally {
    asOwnerOf(dir, () => closeQuietly(connection));
  }
}

function check(source: string, target: string): void {
  const copy = openReadOnly(target);
  try {
    const found = quickCheck(copy);
    if (found === '') return;
    throw new LinesideError('STORAGE_DAMAGED', `${source} is damaged: ${found}`, {
      hint: 'A copy of it would be damaged too. --no-log leaves a damaged log out.',
    });
  } finally {
    closeQuietly(copy);
  }
}
