/** Checks of the data directories (space, rights, a synced write), and of the two databases. */
import { constants, rmSync } from 'node:fs';
import { open, realpath, stat, statfs } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { messageOf, systemCode } from '../../shared/base/errors.ts';
import { holdersOf } from '../../shared/base/processes.ts';
import { type Finding, type Findings, failed, needsRoot, ok, orFine, skipped, warning } from '../check.ts';
import type { CheckContext, ConfiguredContext } from '../check-context.ts';
import { readSafely } from '../safe-files.ts';

const mib = (bytes: number): string => `${Math.floor(bytes / 1_048_576)} MiB`;

export interface DiskFacts {
  readonly dir: string;
  readonly freeBytes: number;
  readonly totalBytes: number;
  /** 0 if the file system has no such limit. */
  readonly inodes: number;
  readonly freeInodes: number;
  /** 'done', or the code of the error; 'denied': no right to write. */
  readonly write: string;
  /** Of the databases now, and at their limits. */
  readonly usedBytes: number;
  readonly budgetBytes: number;
  /** Below it changes are refused; 0: no such limit here. */
  readonly minFreeBytes: number;
}

/** A file system wants some inodes to work with. */
const fewInodes = 100;

export function judgeDisk(facts: DiskFacts): Finding[] {
  const { dir, freeBytes, totalBytes, write } = facts;
  if (write === 'EROFS')
    return [
      failed(
        `${dir} is mounted read-only: nothing can be stored`,
        'After an error of the card Linux does that automatically: see the kernel log, make a backup, replace the card.',
      ),
    ];
  const fine = `${mib(freeBytes)} of ${mib(totalBytes)} free in ${dir}, a file was written and synced`;
  return orFine(diskFindings(facts), fine);
}

function* diskFindings(facts: DiskFacts): Findings {
  const { dir, freeBytes, inodes, freeInodes, usedBytes, budgetBytes, minFreeBytes, write } = facts;
  if (minFreeBytes > 0 && freeBytes < minFreeBytes)
    yield failed(
      `${mib(freeBytes)} are free in ${dir}, less than outbox.min_free_bytes (${mib(minFreeBytes)}): changes are refused`,
      'Lower log.max_bytes, remove what else is on the disk, or take a larger card.',
    );
  else if (freeBytes + usedBytes < budgetBytes)
    yield warning(
      `${mib(freeBytes)} are free in ${dir}, and what is kept there may still grow by ${mib(budgetBytes - usedBytes)}`,
      'Lower log.max_bytes or outbox.max_bytes so that both fit, or take a larger card.',
    );
  if (inodes > 0 && freeInodes < fewInodes)
    yield failed(`${dir} has ${freeInodes} inodes left`, 'Remove small files: something has made very many.');
  if (write === 'denied') yield needsRoot(`whether ${dir} takes a file`);
  else if (write === 'ENOSPC' || write === 'EDQUOT')
    yield failed(`${dir} is full`, 'Make room: the line continues, but its data is not stored.');
  else if (write !== 'done')
    yield failed(
      `a file in ${dir} could not be written and synced (${write})`,
      'See the kernel log; replace the card.',
    );
}

export async function checkDisk(context: ConfiguredContext): Promise<Finding[]> {
  const { config } = context;
  const { log, outbox, data } = config;
  const [logBytes, hubBytes] = await Promise.all([
    sizeOf(join(data.dir, 'log.db')),
    sizeOf(join(context.hubDir, 'refdata.db')),
  ]);
  const isSame = context.hubDir === data.dir;
  const line = { usedBytes: logBytes, budgetBytes: log.maxBytes };
  const hub = { usedBytes: hubBytes, budgetBytes: outbox.maxBytes };
  const both = { usedBytes: logBytes + hubBytes, budgetBytes: log.maxBytes + outbox.maxBytes };
  const findings = await lookAtDir(context, data.dir, isSame ? both : line, isSame ? outbox.minFreeBytes : 0);
  return isSame ? findings : [...findings, ...(await lookAtDir(context, context.hubDir, hub, outbox.minFreeBytes))];
}

async function lookAtDir(
  { isRoot }: CheckContext,
  dir: string,
  budget: Pick<DiskFacts, 'usedBytes' | 'budgetBytes'>,
  minFreeBytes: number,
): Promise<Finding[]> {
  const found = await stat(dir).catch((error: unknown) => systemCode(error));
  if (found === 'ENOENT')
    return [warning('the data directory (data.dir) is not there yet', 'The service makes it at its first start.')];
  if (typeof found === 'string')
    return [isRoot ? failed(`data.dir cannot be checked (${found})`, 'See the disk.') : needsRoot('data.dir')];
  if (!found.isDirectory()) return [failed('data.dir names no directory', 'Let it name a directory of its own.')];
  const space = await statfs(dir);
  return judgeDisk({
    dir,
    freeBytes: space.bavail * space.bsize,
    totalBytes: space.blocks * space.bsize,
    inodes: space.files,
    freeInodes: space.ffree,
    write: await writeTest(dir),
    ...budget,
    minFreeBytes,
  });
}

/** Linux, on the architectures of serial boxes: a file without a name. */
const O_TMPFILE = constants.O_DIRECTORY | 0o20000000;
const testBytes = Buffer.alloc(4096, 0x6c);

/**
 * The file has no name if the file system supports that: nothing remains even after a kill. The kernel reports a read-only
 * mount (EROFS) before missing rights.
 */
async function writeTest(dir: string): Promise<string> {
  const nameless = await written(dir, constants.O_RDWR | O_TMPFILE);
  if (nameless === 'EACCES') return 'denied';
  if (!['EOPNOTSUPP', 'EISDIR', 'EINVAL', 'ENOENT'].includes(nameless)) return nameless;
  const path = join(dir, `.doctor-${process.pid}`);
  try {
    return await written(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL);
  } finally {
    rmSync(path, { force: true });
  }
}

async function written(path: string, flags: number): Promise<string> {
  try {
    await using file = await open(path, flags, 0o600);
    await file.write(testBytes);
    await file.sync();
    return 'done';
  } catch (error) {
    const code = systemCode(error);
    return code === '' ? messageOf(error) : code;
  }
}

function sizeOf(path: string): Promise<number> {
  return stat(path).then(
    ({ size }) => size,
    () => 0,
  );
}

export interface DatabaseFacts {
  readonly name: string;
  readonly state: 'missing' | 'denied' | 'odd' | 'no database' | 'damaged' | 'busy' | 'sound' | 'left';
  readonly detail: string;
  readonly bytes: number;
  readonly walBytes: number;
  /** Numbers of it: positions, counts; no content. */
  readonly figures: Readonly<Record<string, number | string>>;
}

/** The service restarts its write-ahead log below this (log 8 MiB, reference data 64 MiB), unless a reader holds it up. */
const largeWalBytes = 256 * 1024 * 1024;

const damagedTodo =
  'Stop the service, keep a copy of the file, restore a backup; at its start the service sets a damaged log aside.';

export function* judgeDatabase({ name, state, detail, bytes, walBytes }: DatabaseFacts): Findings {
  const wal = mib(walBytes);
  if (state === 'missing') yield skipped(`there is no ${name} yet`);
  if (state === 'denied') yield needsRoot(name);
  if (state === 'odd') yield failed(`${name} is ${detail}`, damagedTodo);
  if (state === 'no database') yield failed(`${name} is no SQLite database (${detail})`, damagedTodo);
  if (state === 'damaged') yield failed(`${name} cannot be read: ${detail}`, damagedTodo);
  if (state === 'busy')
    yield warning(`${name} is locked by another process`, 'End whatever holds it (a backup, the sqlite3 shell).');
  if (state === 'left')
    yield ok(`${name}: ${mib(bytes)}; ${wal} of its write-ahead log are taken in at the next start`);
  if (state !== 'sound') return;
  yield walBytes > largeWalBytes
    ? warning(`${name}: its write-ahead log has ${wal}`, 'A reader holds it up (a backup?); restart the service.')
    : ok(`${name}: ${mib(bytes)}, readable, write-ahead log ${wal}`);
}

export async function checkDatabases(context: CheckContext): Promise<Finding[]> {
  return (await databaseFacts(context)).flatMap((facts) => [...judgeDatabase(facts)]);
}

export async function databaseFacts(context: CheckContext): Promise<DatabaseFacts[]> {
  const { config, hubDir, roots } = context;
  if (config === undefined) return [];
  return [
    await lookAtDatabase(roots.proc, join(config.data.dir, 'log.db'), logFigures),
    await lookAtDatabase(roots.proc, join(hubDir, 'refdata.db'), hubFigures),
  ];
}

/** Counts and positions. No count of the log's blocks: it would read all of a large file. */
const logFigures = [
  'SELECT min(first_id) AS first_block, max(first_id) AS last_block FROM blocks',
  'SELECT count(*) AS gaps, coalesce(sum(entries), 0) AS lost_entries FROM gaps',
  "SELECT key, value FROM meta WHERE key IN ('ceiling_id', 'removed_to', 'ran_ms', 'lost_entries', 'lost_bytes')",
];
const hubFigures = [
  'SELECT max(id) AS last_outbox_id FROM outbox_events',
  'SELECT count(*) AS waiting FROM outbox_waiting',
  'SELECT count(*) AS dead_letters FROM dead_letters',
];

const headerBytes = 100;

async function lookAtDatabase(proc: string, path: string, queries: readonly string[]): Promise<DatabaseFacts> {
  const facts = { name: basename(path), detail: '', bytes: 0, walBytes: 0, figures: {} };
  const read = await readSafely(path, headerBytes);
  if (read.kind === 'odd') return { ...facts, state: 'odd', detail: 'no file' };
  if (read.kind === 'failed') return { ...facts, state: 'damaged', detail: read.code };
  if (read.kind !== 'text') return { ...facts, state: read.kind };
  const walBytes = await sizeOf(`${path}-wal`);
  const known = { ...facts, bytes: read.stats.size, walBytes };
  const fault = headerFault(read.bytes);
  const { holders } = await holdersOf(proc, await realpath(path));
  const isOpen = holders.some(({ isLineside }) => isLineside);
  // SQLite creates missing WAL files even for a reader: such a database is not opened.
  if (!isOpen && walBytes > 0 && fault === '') return { ...known, state: 'left' };
  if (fault !== '') return { ...known, state: 'no database', detail: fault };
  try {
    return { ...known, state: 'sound', figures: figuresOf(path, isOpen, queries) };
  } catch (error) {
    const code = systemCode(error);
    if (/BUSY|locked/.test(`${code} ${messageOf(error)}`)) return { ...known, state: 'busy' };
    return { ...known, state: 'damaged', detail: code === '' ? messageOf(error) : `${code}, ${messageOf(error)}` };
  }
}

function headerFault(header: Buffer): string {
  if (header.length === 0) return 'it is empty';
  if (header.length < headerBytes) return `it has ${header.length} bytes`;
  return header.toString('latin1', 0, 16) === 'SQLite format 3\0' ? '' : 'its first bytes are others';
}

/** Another process may hold a lock for a moment. */
const busyMs = 2_000;

/** A file that no process has open is read without locks, so that nothing is made beside it. */
function figuresOf(path: string, isOpen: boolean, queries: readonly string[]): DatabaseFacts['figures'] {
  const url = pathToFileURL(path);
  if (!isOpen) url.searchParams.set('immutable', '1');
  using connection = new DatabaseSync(url, { readOnly: true, timeout: busyMs });
  const rows = ['PRAGMA user_version', ...queries].flatMap((sql) => connection.prepare(sql).all());
  const named = rows.flatMap((row) => ('key' in row ? [[String(row['key']), row['value']]] : Object.entries(row)));
  return Object.fromEntries(named.filter(([, value]) => typeof value === 'number'));
}
