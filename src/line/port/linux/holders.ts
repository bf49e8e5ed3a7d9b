/** Which other process has a port, as far as /proc and the lock files tell. Nothing here opens the port. */
import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { systemCode } from '../../../shared/base/errors.ts';
import { holdersOf, processText, runningOf } from '../../../shared/base/processes.ts';

/** Where programs of the UUCP tradition (minicom, cu, pppd) leave LCK..<name> with their pid. */
const LOCK_DIRECTORY = '/run/lock';

/** "process 812 (minicom)" that has the path open, other than this one; undefined when none is seen (or may be seen). */
export async function openHolder(path: string, procRoot = '/proc'): Promise<string | undefined> {
  const [holder] = (await holdersOf(procRoot, path)).holders;
  return holder && processText(holder);
}

/** The living process that a UUCP lock file names; a stale or unreadable file names none. */
export async function lockFileHolder(path: string, lockDirectory = LOCK_DIRECTORY): Promise<string | undefined> {
  const content = await readFile(join(lockDirectory, `LCK..${basename(path)}`)).catch(() => undefined);
  const pid = content === undefined ? undefined : lockPid(content);
  if (pid === undefined || pid === process.pid || !isAlive(pid)) return undefined;
  return processText(await runningOf('/proc', pid));
}

/** The pid as ASCII digits (HDB, the usual form) or as a native 4-byte integer (the older one). */
export function lockPid(content: Uint8Array): number | undefined {
  const text = /^\s*(\d{1,10})(\s|$)/.exec(Buffer.from(content).toString('latin1'));
  const pid =
    text?.[1] !== undefined ? Number(text[1]) : content.length === 4 ? Buffer.from(content).readInt32LE(0) : 0;
  return pid > 0 ? pid : undefined;
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (thrown) {
    return systemCode(thrown) === 'EPERM';
  }
}
