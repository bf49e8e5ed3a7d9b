/** Telling a damaged file from a disk that fails. Pure. */
import { LinesideError, systemCode } from '../base/errors.ts';

/** Of a block that is not what was written, where SQLite itself saw nothing. */
export class DamagedError extends Error {
  readonly code = 'SQLITE_CORRUPT';
}

export function isDamage(error: unknown): boolean {
  if (error instanceof LinesideError) return false;
  const code = systemCode(error);
  return code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB' || isForeign(error, code);
}

/** The tables are not those of a log. */
function isForeign(error: unknown, code: string): boolean {
  return (
    code === 'SQLITE_ERROR' && error instanceof Error && /no such (table|column)|has no column/.test(error.message)
  );
}
