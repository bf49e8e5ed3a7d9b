/** Puts a backup in the place of what a box has: whole, or not at all. */

import { spawnSync } from 'node:child_process';
import { existsSync, fstatSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import Database from 'better-sqlite3';
import { isHeld } from '../../shared/base/data-directory.ts';
import { LinesideError, messageOf } from '../../shared/base/errors.ts';
import { closeQuietly } from '../../shared/storage/open.ts';
import { etc } from '../box.ts';
import { asOwnerOf, opened } from '../disk.ts';
import { type BackupList, contentsOf, type Verified, verifyBackup, withoutSecrets } from './backup-archive.ts';
import { allowedPaths, type DataPaths } from './data-paths.ts';
import { type KnownDatabase, prepareRestore, removeWork } from './restore-prepare.ts';
import { finishRestore, type OnStep, swap, writeJournal } from './restore-swap.ts';

export interface RestoreOptions {
  readonly file: string;
  readonly configFile: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly databases: Readonly<Record<'log' | 'refdata', KnownDatabase>>;
  readonly services: Services;
  /** For a backup that came over the network: the box keeps its tokens, keys and secrets, whatever the file holds. */
  readonly keepsSecrets?: boolean;
  readonly onProgress?: (what: string, doneBytes: number, ofBytes: number) => void;
  readonly onStep?: OnStep;
}

/** Everything is verified and lies ready before the service is stopped; from then on it takes some renames. */
export function restoreBackup(options: RestoreOptions): BackupList {
  const { file, configFile, services, keepsSecrets = false, onStep = () => undefined } = options;
  const { onProgress = () => undefined } = options;
  const etcDir = dirname(configFile);
  using backup = opened(file, 'r');
  const { fd } = backup;
  const all = verifyWith(fd, onProgress);
  if (finishRestore(etcDir)) {
    throw new LinesideError('CONFLICT', 'an earlier restore had been interrupted: it is finished now', {
      hint: 'Run this command again to restore this backup instead.',
    });
  }
  onProgress('preparing', 0, 1);
  const verified = keepsSecrets ? withoutSecrets(fd, all, basename(configFile), tokensNames(options)) : all;
  const { paths, moves } = prepareRestore({ ...options, fd, verified, onStep, isForeign: keepsSecrets });
  onProgress('replacing', 0, 1);
  const running = services.stop();
  try {
    checkNotInUse(paths);
    writeJournal(etcDir, moves, onStep);
  } catch (error) {
    for (const dir of new Set(moves.map((move) => move.dir))) removeWork(dir);
    services.start(running);
    throw error;
  }
  try {
    swap(etcDir, moves, onStep);
  } catch (error) {
    throw new LinesideError('STORAGE_FAILED', `the restore was interrupted: ${messageOf(error)}`, {
      cause: error,
      hint: 'The service stays down; the next start of the box resumes the restore. Try: lineside restore --finish',
    });
  }
  try {
    services.start(running);
  } catch (error) {
    throw new LinesideError(
      'NOT_READY',
      `the backup is restored, but the service does not start: ${messageOf(error)}`,
      {
        cause: error,
        hint: 'Try: systemctl status lineside lineside-hub',
      },
    );
  }
  return verified.list;
}

/** Reads and checks a backup; nothing is changed. */
export function inspectBackup(file: string, onProgress: NonNullable<RestoreOptions['onProgress']>) {
  using backup = opened(file, 'r');
  return contentsOf(verifyWith(backup.fd, onProgress), fstatSync(backup.fd).size);
}

function verifyWith(fd: number, onProgress: NonNullable<RestoreOptions['onProgress']>): Verified {
  const { size } = fstatSync(fd);
  let done = 0;
  return verifyBackup(fd, (bytes) => onProgress('verifying the backup', (done += bytes), size));
}

/** The usual one, and that of the configuration that the box has now. */
function tokensNames({ configFile, env }: RestoreOptions): string[] {
  return allowedPaths(configFile, env).map(({ tokensFile }) => basename(tokensFile));
}

/** The service, which a restore stops so that no process works on its files. */
export interface Services {
  /** Returns the services that were running, for start(), which opens their sockets too. */
  stop(): readonly string[];
  start(units: readonly string[]): void;
}

const units = ['lineside.service', 'lineside-hub.service'];
/** A connection to one of them would start the service. */
const sockets = 'lineside*.socket';

/**
 * systemd's; where that does not run, or the configuration is another one than its units', there is nothing to stop: who
 * started the service stops it.
 */
export function servicesOf(configFile: string): Services {
  if (configFile !== etc.config || !existsSync('/run/systemd/system'))
    return { stop: () => [], start: () => undefined };
  return {
    stop() {
      const states = '--state=active,activating,reloading';
      const listed = systemctl('list-units', '--plain', '--no-legend', states, sockets, ...units);
      const running = listed
        .split('\n')
        .flatMap((line) => line.trim().split(/\s+/).slice(0, 1))
        .filter(Boolean);
      // Sockets first, or a caller starts the service again in between.
      const first = running.filter((unit) => unit.endsWith('.socket'));
      if (first.length > 0) systemctl('stop', ...first);
      if (running.length > first.length) systemctl('stop', ...running.filter((unit) => !first.includes(unit)));
      return running.filter((unit) => unit.endsWith('.service'));
    },
    start(running) {
      if (running.length > 0) systemctl('start', ...running);
    },
  };
}

function systemctl(...args: readonly string[]): string {
  const { status, stdout, stderr, error } = spawnSync('systemctl', args, { encoding: 'utf8' });
  if (status === 0) return stdout;
  throw new LinesideError('NOT_READY', `systemctl ${args[0]}: ${error?.message ?? stderr.trim()}`, {
    hint: 'Are you root?',
  });
}

/** Throws CONFLICT while the service runs, or another process has a database open. */
function checkNotInUse({ lineDir, hubDir }: DataPaths): void {
  const places = [
    { dir: lineDir, role: 'line', database: 'log.db' },
    { dir: hubDir, role: 'hub', database: 'refdata.db' },
  ] as const;
  for (const { dir, role, database } of places) {
    const path = join(dir, database);
    if (!asOwnerOf(dir, () => isHeld(dir, role) || (existsSync(path) && isLocked(path)))) continue;
    throw new LinesideError('CONFLICT', `${path} is in use: the service runs`, {
      hint: 'Stop it first ("systemctl stop lineside", or a signal TERM to "lineside serve"); nothing was replaced.',
    });
  }
}

/** A process that has a database of this kind open holds a lock on it, idle or not, that an exclusive one does not go with. */
function isLocked(path: string): boolean {
  const connection = new Database(path, { timeout: 0 });
  try {
    connection.pragma('locking_mode = EXCLUSIVE');
    connection.exec('BEGIN EXCLUSIVE; ROLLBACK');
    return false;
  } catch (error) {
    // A damaged file counts as not locked: the restore replaces it.
    return /locked|busy/i.test(messageOf(error));
  } finally {
    closeQuietly(connection);
  }
}
