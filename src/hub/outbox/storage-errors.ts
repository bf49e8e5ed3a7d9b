/** What SQLite's failures mean to the callers and the operator of refdata.db. Pure. */
import { type ErrorCode, LinesideError, messageOf, systemCode } from '../../shared/base/errors.ts';

export const damagedHint =
  'Stop lineside, keep a copy of refdata.db and its -wal, and restore a backup, or save what can be read with `sqlite3 refdata.db .recover`.';

/** The open file has everything, the file at its path has not. */
const lostHint =
  'Put the file back, or stop lineside and restore a backup; a restart without it begins an empty refdata.db.';

const table: readonly {
  readonly begins: RegExp;
  readonly code: ErrorCode;
  readonly says: string;
  readonly hint: string;
}[] = [
  {
    begins: /^(SQLITE_FULL|ENOSPC)/,
    code: 'STORAGE_FULL',
    says: 'the disk, or the space given to refdata.db, is full',
    hint: 'Free space on its file system, or raise outbox.max_bytes; nothing was written.',
  },
  {
    begins: /^SQLITE_(CORRUPT|NOTADB)/,
    code: 'STORAGE_DAMAGED',
    says: 'refdata.db is damaged',
    hint: damagedHint,
  },
  {
    begins: /^SQLITE_(BUSY|LOCKED)/,
    code: 'STORAGE_FAILED',
    says: 'refdata.db is held by another program',
    hint: 'Close what has it open (a backup, the sqlite3 shell); try again.',
  },
  {
    begins: /^FILE_LOST/,
    code: 'STORAGE_FAILED',
    says: 'changes cannot be kept',
    hint: lostHint,
  },
  {
    begins: /^(SQLITE_IOERR|EIO)/,
    code: 'STORAGE_FAILED',
    says: 'the disk under refdata.db fails',
    hint: 'See dmesg; replace the card if the failures continue.',
  },
  {
    begins: /^(SQLITE_(READONLY|CANTOPEN|PERM|AUTH|NOMEM|PROTOCOL)|EACCES|EPERM|EROFS|ENOTDIR|EISDIR)/,
    code: 'STORAGE_FAILED',
    says: 'refdata.db cannot be opened or written',
    hint: 'Make data.dir a directory that the service can write.',
  },
];

/** An event as the view `events` has it. Throws STORAGE_DAMAGED: the version of its record is lost. */
export function withBody<R extends { readonly id: number; readonly body: string | null }>(
  row: R,
): R & { readonly body: string } {
  if (row.body !== null) return row as R & { readonly body: string };
  const message = `refdata.db has lost the version of outbox event ${row.id}`;
  throw new LinesideError('STORAGE_DAMAGED', message, { hint: damagedHint });
}

/** A LinesideError if the store failed; anything else (a rule's refusal, a programming fault) unchanged. */
export function storageError(thrown: unknown): unknown {
  if (thrown instanceof LinesideError) return thrown;
  const code = systemCode(thrown);
  const row = table.find(({ begins }) => begins.test(code));
  if (row === undefined) return thrown;
  return new LinesideError(row.code, `${row.says}: ${messageOf(thrown)} (${code})`, { cause: thrown, hint: row.hint });
}
