/**
 * The moment of a restore: what was prepared takes the place of what is there, name by name. A journal, written before the
 * first and removed after the last, lets the next start after a pulled plug resume: a box has all of the old or all of the new.
 */
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { LinesideError } from '../../shared/base/errors.ts';
import { asOwnerOf, syncPath, writeSynced } from '../disk.ts';
import { restoreDirName } from './backup-archive.ts';

/** One name in one directory: moved to .restore/old there, and replaced from .restore/new where there is something new. */
export interface Move {
  readonly dir: string;
  readonly name: string;
  readonly hasNew: boolean;
}

interface Journal {
  readonly format: 'lineside-restore 1';
  readonly moves: readonly Move[];
}

/** Before each step; tests end the process here. */
export type OnStep = (step: string) => void;

export function preparedPath(dir: string): string {
  return join(dir, restoreDirName, 'new');
}

function oldPath(dir: string): string {
  return join(dir, restoreDirName, 'old');
}

function journalPath(etcDir: string): string {
  return join(etcDir, restoreDirName, 'journal.json');
}

/** From the journal on there is no way back but forward; where it cannot be written nothing has begun. */
export function writeJournal(etcDir: string, moves: readonly Move[], onStep: OnStep): void {
  const journal: Journal = { format: 'lineside-restore 1', moves };
  onStep('journal');
  const temporary = `${journalPath(etcDir)}.new`;
  writeSynced(temporary, [Buffer.from(JSON.stringify(journal))]);
  renameSync(temporary, journalPath(etcDir));
  try {
    syncPath(join(etcDir, restoreDirName));
  } catch (error) {
    rmSync(journalPath(etcDir), { force: true });
    throw error;
  }
}

/** What a pulled plug interrupted is brought to its end: true when there was something. */
export function finishRestore(etcDir: string, onStep: OnStep = () => undefined): boolean {
  const path = journalPath(etcDir);
  if (!existsSync(path)) return false;
  const journal = JSON.parse(readFileSync(path, 'utf8')) as Journal;
  if (journal.format !== 'lineside-restore 1') {
    throw new LinesideError('UNSUPPORTED', `${path} was written by another lineside`, {
      hint: 'Restore again with the lineside that began it.',
    });
  }
  swap(etcDir, journal.moves, onStep);
  return true;
}

/** Every step may have been done already. */
export function swap(etcDir: string, moves: readonly Move[], onStep: OnStep): void {
  const dirs = [...new Set(moves.map(({ dir }) => dir))];
  for (const move of moves) asOwnerOf(move.dir, () => moveOne(move, onStep));
  for (const dir of dirs) {
    asOwnerOf(dir, () => syncPath(dir));
    asOwnerOf(dir, () => syncPath(join(dir, restoreDirName)));
  }
  onStep('done');
  // The journal last: until it is gone, this is done again.
  for (const dir of dirs.filter((one) => one !== etcDir)) {
    onStep(`clear ${dir}`);
    asOwnerOf(dir, () => rmSync(join(dir, restoreDirName), { recursive: true, force: true }));
    asOwnerOf(dir, () => syncPath(dir));
  }
  onStep('forget');
  rmSync(journalPath(etcDir), { force: true });
  syncPath(join(etcDir, restoreDirName));
  onStep('clear');
  rmSync(join(etcDir, restoreDirName), { recursive: true, force: true });
}

function moveOne({ dir, name, hasNew }: Move, onStep: OnStep): void {
  const [here, prepared, old] = [join(dir, name), join(preparedPath(dir), name), join(oldPath(dir), name)];
  if (hasNew && !existsSync(prepared)) return;
  if (existsSync(here) && !existsSync(old)) {
    onStep(`away ${name}`);
    renameSync(here, old);
  }
  if (!hasNew) return;
  onStep(`new ${name}`);
  renameSync(prepared, here);
}
