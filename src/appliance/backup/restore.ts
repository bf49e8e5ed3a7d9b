/** Puts a backup in the place of what a box has: whole, or not at all. */
import { closeSync, openSync } from 'node:fs';
import { dirname } from 'node:path';
import { LinesideError, messageOf } from '../../shared/base/errors.ts';
import { type BackupList, verifyBackup } from './backup-archive.ts';
import { type KnownDatabase, prepareRestore, removeWork } from './restore-prepare.ts';
import { finishRestore, type OnStep, swap, writeJournal } from './restore-swap.ts';
import { checkNotInUse, type Services } from './services.ts';

export interface RestoreOptions {
  readonly file: string;
  readonly configFile: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly databases: Readonly<Record<'log' | 'refdata', KnownDatabase>>;
  readonly services: Services;
  /** Tests end the process at a step. */
  readonly onStep?: OnStep;
}

/** Everything is verified and lies ready before the service is stopped; from then on it takes some renames. */
export function restoreBackup(options: RestoreOptions): BackupList {
  const { file, configFile, services, onStep = () => undefined } = options;
  const etcDir = dirname(configFile);
  const fd = openSync(file, 'r');
  try {
    const verified = verifyBackup(fd, () => undefined);
    if (finishRestore(etcDir)) {
      throw new LinesideError('CONFLICT', 'an earlier restore had been interrupted: it is finished now', {
        hint: 'Run this command again to restore this backup instead.',
      });
    }
    const { paths, moves } = prepareRestore({ ...options, fd, verified, onStep });
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
    services.start(running);
    return verified.list;
  } finally {
    closeSync(fd);
  }
}
