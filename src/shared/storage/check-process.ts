/**
 * Checks a file that was too large to be checked before it was opened, beside its writer. A process, because SQLite's check
 * cannot be interrupted and only a process can be killed in it. Arguments: the file, the process that asks.
 * Writes what it found, nothing when the file is sound; exit status 1 and the reason on standard error: it could not be read.
 */
import { messageOf, systemCode } from '../base/errors.ts';
import { dieWithParent, nameThread } from '../base/libc.ts';
import { closeQuietly, openReadOnly, quickCheck } from './open.ts';

const [, , path = '', parent] = process.argv;
nameThread('lineside-check');
// The parent may be gone already.
dieWithParent();
if (process.ppid !== Number(parent)) process.exit(1);
try {
  process.stdout.write(check());
} catch (error) {
  process.stderr.write(messageOf(error));
  process.exitCode = 1;
}

function check(): string {
  const connection = openReadOnly(path);
  try {
    return quickCheck(connection);
  } catch (error) {
    if (/^SQLITE_(CORRUPT|NOTADB)/.test(systemCode(error))) return messageOf(error);
    throw error;
  } finally {
    closeQuietly(connection);
  }
}
