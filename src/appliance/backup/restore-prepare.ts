/** A restore up to the moment: every file of the backup lies beside what it is to replace, checked, and nothing is replaced. */

import { createHash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  existsSync,
  fstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, isAbsolute, join, resolve } from 'node:path';
import { FILE_MODE } from '../../shared/auth/tokens.ts';
import { LinesideError, messageOf } from '../../shared/base/errors.ts';
import { isFileLock } from '../../shared/base/file-lock.ts';
import { loadText } from '../../shared/config/load.ts';
import { checkReadable } from '../../shared/storage/migrate.ts';
import { type Connection, closeQuietly, type Migrations, openExisting, quickCheck } from '../../shared/storage/open.ts';
import { Box, etc, SERVICE_GROUP } from '../box.ts';
import { faultsOfForeign } from '../configuration/configuration-file.ts';
import { asOwnerOf, demandRoom, readDifferently, syncPath, writeSynced } from '../disk.ts';
import { hashed } from '../hash.ts';
import { Cursor, type TarEntry, tarEntries } from '../tar.ts';
import { withDeviceId } from '../toml-text.ts';
import { dataFiles, keylessFormat, restoreDirName, setupDirName, type Verified } from './backup-archive.ts';
import { allowedPaths, type DataPaths, dataPathsIn } from './data-paths.ts';
import { type Move, preparedPath } from './restore-swap.ts';

const cacheKib = 4_096;
const walLimitBytes = 4 * 1024 * 1024;

/** What this program can open, and how a database that resumes from an earlier state gets a new identity. */
export interface KnownDatabase {
  readonly migrations: Migrations;
  readonly renew: (connection: Connection) => void;
}

export interface PrepareOptions {
  readonly fd: number;
  readonly verified: Verified;
  readonly configFile: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly databases: Readonly<Record<'log' | 'refdata', KnownDatabase>>;
  readonly onStep: (step: string) => void;
  /** The backup came over the network: its configuration must be without a fault, and name no other place than that of the box. */
  readonly isForeign: boolean;
}

export interface Prepared {
  readonly paths: DataPaths;
  readonly moves: readonly Move[];
}

/** Throws MALFORMED, CONFIG_INVALID, STORAGE_FULL, STORAGE_DAMAGED, INTERNAL (a newer schema), and has changed nothing then. */
export function prepareRestore(options: PrepareOptions): Prepared {
  const begun: string[] = [];
  try {
    return prepare(options, begun);
  } catch (error) {
    for (const dir of begun) removeWork(dir);
    throw error;
  }
}

/** `begun` receives each directory before anything is put into it. */
function prepare(options: PrepareOptions, begun: string[]): Prepared {
  const { fd, verified, configFile, env, databases, onStep } = options;
  const etcDir = dirname(configFile);
  const begin = (dir: string, entries: readonly TarEntry[]): void => {
    begun.push(dir);
    beginIn(dir, entries);
  };
  begin(etcDir, verified.entries.filter(isEtc));
  onStep('etc');
  const etcPath = (entry: TarEntry) => join(preparedPath(etcDir), entry.path.slice('etc/'.length));
  copyOut(fd, verified, (entry) => (isEtc(entry) ? etcPath(entry) : undefined));
  const paths = pathsOfPrepared(options, etcDir);
  if (options.isForeign) checkForeign(options, etcDir);

  const data = verified.entries.filter((entry) => !isEtc(entry));
  checkTargets(data, paths, allowedPaths(configFile, env));
  const byDir = Map.groupBy(data, ({ path }) => dirOf(path, paths));
  for (const [dir, entries] of byDir) begin(dir, entries);
  onStep('data');
  const preparedAt = (path: string): string => join(preparedPath(dirOf(path, paths)), nameOf(path, paths));
  for (const dir of byDir.keys()) {
    const isHere = (entry: TarEntry): boolean => !isEtc(entry) && dirOf(entry.path, paths) === dir;
    asOwnerOf(dir, () => copyOut(fd, verified, (entry) => (isHere(entry) ? preparedAt(entry.path) : undefined)));
  }
  for (const name of ['log', 'refdata'] as const) {
    const path = dataFiles[name];
    if (!data.some((entry) => entry.path === path)) continue;
    asOwnerOf(dirOf(path, paths), () => prepareDatabase(preparedAt(path), databases[name]));
  }
  for (const dir of begun) asOwnerOf(dir, () => syncTree(join(dir, restoreDirName)));
  onStep('prepared');
  const keepsOthers = verified.list.format === keylessFormat;
  return { paths, moves: [...dataMoves(data, paths), ...etcMoves(etcDir, keepsOthers)] };
}

/** The restored configuration names the data directories, and keeps the name that the box had. */
function pathsOfPrepared({ verified, configFile, env }: PrepareOptions, etcDir: string): DataPaths {
  const path = join(preparedPath(etcDir), basename(configFile));
  const { deviceId } = verified.list;
  const text = (): string | undefined => (existsSync(path) ? readFileSync(path, 'utf8') : undefined);
  const read = (): DataPaths => dataPathsIn(loadText({ file: path, text: text() }, env, 'locate'), configFile);
  let paths = read();
  if (paths.deviceId !== deviceId) {
    // Made from the machine's own id where the file names none, and this is another machine or another card.
    writeFileSync(path, withDeviceId(text() ?? '', deviceId), { flush: true });
    paths = read();
    if (paths.deviceId !== deviceId) {
      throw new LinesideError('CONFIG_INVALID', `the name of the box, ${deviceId}, cannot be kept`, {
        hint: 'Does LINESIDE_DEVICE_ID say another one?',
      });
    }
  }
  return paths;
}

/** The service would not start with a fault, and then there is no network to correct it by. */
function checkForeign({ configFile, env }: PrepareOptions, etcDir: string): void {
  const path = join(preparedPath(etcDir), basename(configFile));
  const faults = existsSync(path) ? faultsOfForeign(configFile, readFileSync(path, 'utf8'), env) : [];
  if (faults.length === 0) return;
  const reasons = faults.map(({ path: key, message }) => `${key}: ${message}`);
  throw new LinesideError('CONFIG_INVALID', `the backup's configuration does not fit this box: ${reasons.join('; ')}`, {
    reasons,
    hint: 'Restore it on the box: sudo lineside restore FILE --yes',
  });
}

/** Throws CONFIG_INVALID, with the first entry that the backup's configuration would put anywhere else than this box's own. */
function checkTargets(data: readonly TarEntry[], paths: DataPaths, known: readonly DataPaths[]): void {
  const dirs = known.flatMap(({ lineDir, hubDir }) => [lineDir, hubDir]).map((dir) => resolve(dir));
  const keys = [...known.map(({ keyFile }) => keyFile), ...dirs.map((dir) => join(dir, 'webhooks.key'))];
  for (const { path } of data) {
    const target = join(dirOf(path, paths), nameOf(path, paths));
    const isKnown =
      path === dataFiles.key
        ? isAbsolute(target) && keys.some((key) => resolve(key) === resolve(target))
        : dirs.includes(resolve(dirname(target)));
    // A key in the directory of the configuration is kept below etc/.
    if (isKnown && !resolve(target).startsWith(`${resolve(paths.etcDir)}/`)) continue;
    const key = path === dataFiles.key ? 'webhooks.key_file' : 'data.dir';
    const hint = `This box keeps its data in ${[...new Set(dirs)].join(', ')}. If the place is right, set ${key} in the configuration of this box first.`;
    const message = `cannot restore ${path}: the backup's configuration puts it at ${target}`;
    throw new LinesideError('CONFIG_INVALID', message, { hint });
  }
}

/** Sound, of a version that this program can open, and under a new identity. Its write-ahead log is part of it afterwards. */
function prepareDatabase(path: string, { migrations, renew }: KnownDatabase): void {
  let connection: Connection | undefined;
  try {
    connection = openExisting({ path, cacheKib, walLimitBytes });
    const found = quickCheck(connection);
    if (found !== '') throw new LinesideError('STORAGE_DAMAGED', `the backup's ${basename(path)} is damaged: ${found}`);
    checkReadable(connection, migrations);
    renew(connection);
    connection.pragma('wal_checkpoint(TRUNCATE)');
  } catch (error) {
    if (error instanceof LinesideError) throw error;
    throw new LinesideError('STORAGE_DAMAGED', `the backup's ${basename(path)} cannot be opened: ${messageOf(error)}`, {
      cause: error,
    });
  } finally {
    if (connection !== undefined) closeQuietly(connection);
  }
}

export function removeWork(dir: string): void {
  asOwnerOf(dir, () => rmSync(join(dir, restoreDirName), { recursive: true, force: true }));
}

/** The companions of a database first: an old write-ahead log beside a new file would be checkpointed into it. */
function dataMoves(data: readonly TarEntry[], paths: DataPaths): Move[] {
  const moves = data.map(({ path }) => ({ dir: dirOf(path, paths), name: nameOf(path, paths), hasNew: true }));
  const companions = moves
    .filter(({ name }) => name.endsWith('.db'))
    .flatMap(({ dir, name }) => ['-wal', '-shm'].map((suffix) => ({ dir, name: name + suffix, hasNew: false })));
  return [...companions, ...moves];
}

/** The directory gets its old content: files that were added since are removed, unless the backup has only a part (`keepsOthers`). */
function etcMoves(etcDir: string, keepsOthers: boolean): Move[] {
  const prepared = readdirSync(preparedPath(etcDir));
  const names = new Set([...(keepsOthers ? [] : readdirSync(etcDir)), ...prepared]);
  names.delete(restoreDirName);
  names.delete(setupDirName);
  // A command may be waiting for it.
  return [...names]
    .filter((name) => !isFileLock(name))
    .map((name) => ({ dir: etcDir, name, hasNew: prepared.includes(name) }));
}

function syncTree(dir: string): void {
  for (const path of ['.', ...readdirSync(dir, { recursive: true, encoding: 'utf8' })]) syncPath(join(dir, path));
}

function dirOf(path: string, paths: DataPaths): string {
  if (path === dataFiles.key) return dirname(paths.keyFile);
  return path.startsWith('line/') ? paths.lineDir : paths.hubDir;
}

function nameOf(path: string, paths: DataPaths): string {
  return path === dataFiles.key ? basename(paths.keyFile) : basename(path);
}

// The files of a backup into the directories that stand beside what they are to replace.

/** A directory of the service that is not there yet; systemd makes its own mode of it. */
const dirMode = 0o700;
const slackBytes = 16 * 1024 * 1024;

/** What an earlier try left is removed; it had no journal, so nothing of it is in use. */
function beginIn(dir: string, entries: readonly TarEntry[]): void {
  mkdirSync(dir, { recursive: true, mode: dirMode });
  const work = join(dir, restoreDirName);
  asOwnerOf(dir, () => rmSync(work, { recursive: true, force: true }));
  const needed = entries.reduce((all, { bytes }) => all + bytes, slackBytes);
  const hint = 'What is there now is kept until the end. Where it is not wanted: lineside factory-reset, then restore.';
  demandRoom(dir, needed, 'the restore', hint);
  asOwnerOf(dir, () => {
    // Not recursive: what the service's user may have put there is not followed.
    mkdirSync(work, { mode: 0o700 });
    mkdirSync(join(work, 'old'), { mode: 0o700 });
    mkdirSync(join(work, 'new'), { mode: 0o700 });
  });
}

/** Files with a target; their hashes again, since a medium may read differently the second time. Throws MALFORMED. */
function copyOut(fd: number, { list }: Verified, targetOf: (entry: TarEntry) => string | undefined): void {
  const hashes = new Map(list.files.map(({ path, sha256 }) => [path, sha256]));
  for (const { entry, content } of tarEntries(new Cursor(fd, 0, fstatSync(fd).size))) {
    const [hash, path] = [hashes.get(entry.path), targetOf(entry)];
    if (hash === undefined || path === undefined) continue;
    if (entry.isDirectory) mkdirSync(path);
    else writeFile(path, content, hash);
    // Only root can change owners. Files of the service's users are written as those users.
    if (process.geteuid?.() === 0 && isEtc(entry)) chownSync(path, 0, groupOf(entry));
    chmodSync(path, modeOf(entry));
  }
}

function isEtc({ path }: TarEntry): boolean {
  return path.startsWith('etc/');
}

const tokensFile = `etc/${basename(etc.tokens)}`;
const privateDirs = ['etc/ca', 'etc/secrets'];

/** The group is kept if it is one of the service's: the archive could name any. Root owns all of /etc/lineside. */
function groupOf({ path, group }: TarEntry): number {
  const wanted = path === tokensFile ? SERVICE_GROUP : group;
  return serviceGroups.includes(wanted) ? (new Box('/').group(wanted) ?? 0) : 0;
}

const serviceGroups = [SERVICE_GROUP, 'lineside-hub'];

/** Never setuid, executable, or writable for other users; secrets are for root alone, whatever the archive says. */
function modeOf(entry: TarEntry): number {
  const { path, isDirectory, mode } = entry;
  const isPrivate = privateDirs.some((dir) => `${path}/`.startsWith(`${dir}/`));
  if (isDirectory) return isPrivate ? 0o700 : (mode & 0o755) | 0o700;
  if (isPrivate || !isEtc(entry)) return 0o600;
  return path === tokensFile ? FILE_MODE : (mode & 0o644) | 0o600;
}

function writeFile(path: string, content: Iterable<Buffer>, sha256: string): void {
  const hash = createHash('sha256');
  writeSynced(path, hashed(content, hash), 'wx');
  if (hash.digest('hex') !== sha256) throw readDifferently('the backup', 'replaced');
}
