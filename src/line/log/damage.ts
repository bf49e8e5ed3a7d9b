/** Telling a file that is damaged, lost or another program's from a disk that fails. Pure. */
import { LinesideError, systemCode } from '../../shared/base/errors.ts';
import { FILE_LOST } from '../../shared/storage/database-files.ts';
import { FILE_FOREIGN } from '../../shared/storage/migrate.ts';

/** Of a block that is not what was written, where SQLite itself saw nothing. */
export class DamagedError extends Error {
  readonly code = 'SQLITE_CORRUPT';
}

export function isDamage(error: unknown): boolean {
  if (error instanceof LinesideError) return false;
  const code = systemCode(error);
  if (isFileLost(error) || code === FILE_FOREIGN) return true;
  return code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB' || isForeign(error, code);
}

/** The file is not the one that was opened: no second look is needed. */
export function isFileLost(error: unknown): boolean {
  return systemCode(error) === FILE_LOST;
}

/** The tables are not those of a log. */
function isForeign(error: unknown, code: string): boolean {
  return (
    code === 'SQLITE_ERROR' && error instanceof Error && /no such (table|column)|has no column/.test(error.message)
  );
}
