/** Distinguishes a file that is damaged, lost or another program's from a disk that fails, and describes it to the operator. Pure. */
import { LinesideError, messageOf, systemCode } from '../../shared/base/errors.ts';
import { FILE_LOST } from '../../shared/storage/database-files.ts';
import { FILE_FOREIGN } from '../../shared/storage/migrate.ts';

export function isDamage(error: unknown): boolean {
  if (error instanceof LinesideError) return false;
  const code = systemCode(error);
  if (isFileLost(error) || code === FILE_FOREIGN) return true;
  return code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB' || isForeign(error, code);
}

/** The file is not the one that was opened: no second check is needed. */
export function isFileLost(error: unknown): boolean {
  return systemCode(error) === FILE_LOST;
}

/** The tables are not those of a log. */
function isForeign(error: unknown, code: string): boolean {
  return (
    code === 'SQLITE_ERROR' && error instanceof Error && /no such (table|column)|has no column/.test(error.message)
  );
}

/** `text`: what is wrong and what to do about it, in one line. */
export function describeFailure(error: unknown, dir: string): { readonly code: string; readonly text: string } {
  const code = systemCode(error);
  const carriedHint = typeof error === 'object' && error !== null && 'hint' in error ? String(error.hint) : '';
  const hint = carriedHint === '' ? hintFor(code, dir) : carriedHint;
  const what = code === '' ? messageOf(error) : `${messageOf(error)} (${code})`;
  return { code, text: `the log is not being stored: ${what}. ${hint}` };
}

function hintFor(code: string, dir: string): string {
  if (code === 'SQLITE_FULL' || code === 'ENOSPC')
    return `Free space on the file system of ${dir}; storing resumes automatically.`;
  if (code.startsWith('SQLITE_IOERR') || code === 'EIO')
    return `The disk under ${dir} fails: see dmesg, replace the card.`;
  if (/^SQLITE_(READONLY|CANTOPEN|PERM|AUTH)|^E(ACCES|PERM|ROFS|NOTDIR|ISDIR)$/.test(code)) {
    return `Make ${dir} a directory that the service can write; storing resumes automatically.`;
  }
  if (code.startsWith('SQLITE_BUSY')) return 'Another program holds log.db: close it.';
  return 'Storing is retried automatically.';
}

export function notStored(reason: string): LinesideError {
  return new LinesideError('LOG_NOT_STORED', reason, {
    hint: 'See `lineside status`; try again when the log is kept.',
  });
}
