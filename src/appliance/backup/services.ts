/** The service, as a restore has to know it: stopped, and no process at work on its files. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { isHeld } from '../../shared/base/data-directory.ts';
import { LinesideError, messageOf } from '../../shared/base/errors.ts';
import { closeQuietly } from '../../shared/storage/open.ts';
import { asOwnerOf } from './as-owner.ts';
import type { DataPaths } from './data-paths.ts';

export interface Services {
  /** Answers which services were running, for start: they bring their sockets. */
  stop(): readonly string[];
  start(units: readonly string[]): void;
}

const unitsConfig = '/etc/lineside/lineside.toml';
const units = ['lineside.service', 'lineside-hub.service'];
/** A connection to one of them would start the service. */
const sockets = 'lineside*.socket';

/**
 * systemd's; where that does not run, or the configuration is another one than its units', there is nothing to stop: who
 * started the service stops it.
 */
export function servicesOf(configFile: string): Services {
  if (configFile !== unitsConfig || !existsSync('/run/systemd/system'))
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
export function checkNotInUse({ lineDir, hubDir }: DataPaths): void {
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
    // A damaged file is none to be locked: it is what the restore is for.
    return /locked|busy/i.test(messageOf(error));
  } finally {
    closeQuietly(connection);
  }
}
