/** What a failure of the store means to the person who reads it. Pure. */
import { LinesideError, messageOf, systemCode } from '../../shared/base/errors.ts';

export interface StoreFailure {
  readonly code: string;
  /** What is wrong and what to do about it, in one line. */
  readonly text: string;
}

export function describeFailure(error: unknown, dir: string): StoreFailure {
  const code = systemCode(error);
  const carriedHint = typeof error === 'object' && error !== null && 'hint' in error ? String(error.hint) : '';
  const hint = carriedHint === '' ? hintFor(code, dir) : carriedHint;
  const what = code === '' ? messageOf(error) : `${messageOf(error)} (${code})`;
  return { code, text: `the log is not being stored: ${what}. ${hint}` };
}

function hintFor(code: string, dir: string): string {
  if (code === 'SQLITE_FULL' || code === 'ENOSPC')
    return `Free space on the file system of ${dir}; storing resumes by itself.`;
  if (code.startsWith('SQLITE_IOERR') || code === 'EIO')
    return `The disk under ${dir} fails: see dmesg, replace the card.`;
  if (/^SQLITE_(READONLY|CANTOPEN|PERM|AUTH)|^E(ACCES|PERM|ROFS|NOTDIR|ISDIR)$/.test(code)) {
    return `Make ${dir} a directory that the service can write; storing resumes by itself.`;
  }
  if (code.startsWith('SQLITE_BUSY')) return 'Another program holds log.db: close it.';
  return 'Storing is tried again by itself.';
}

export function notStored(reason: string): LinesideError {
  return new LinesideError('LOG_NOT_STORED', reason, {
    hint: 'See `lineside status`; try again when the log is kept.',
  });
}
