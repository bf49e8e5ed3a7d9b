/**
 * One collector at a time in a directory. The lock is an SQLite lock on a file in it: the kernel's record locks, which end with
 * the process that holds them however it ends. The file itself stays empty.
 */
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { LinesideError, messageOf } from '../shared/base/errors.ts';

const FILE_NAME = 'collector.lock';

/** Answers what releases it. CONFLICT: another one has it. */
export function lockDirectory(dir: string): () => void {
  const connection = new Database(join(dir, FILE_NAME), { timeout: 0 });
  try {
    connection.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    connection.close();
    if (!messageOf(error).includes('locked')) throw error;
    throw new LinesideError('CONFLICT', `another collector uses ${dir}`, { cause: error });
  }
  return () => void connection.close();
}
