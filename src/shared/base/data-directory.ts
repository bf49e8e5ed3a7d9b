/**
 * The service's own directories: made with an error that names the key of the configuration, and held by one process of a kind.
 * It holds a lock (flock(2)) on a file there, which the kernel ends with the process, however that ends. The file holds the
 * process's number as long as the lock lasts.
 */
import { closeSync, constants, fchownSync, ftruncateSync, openSync, readFileSync, statSync, writeSync } from 'node:fs';
import { chmod, mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { LinesideError, messageOf, systemCode } from './errors.ts';
import { tryLock } from './libc.ts';

/** STORAGE_FAILED, and why. */
export async function makeDirectory(key: string, dir: string): Promise<void> {
  try {
    await mkdir(dir, { recursive: true });
  } catch (failed) {
    // Node says ENOENT of a read-only file system when it makes the directories above as well; a plain mkdir does not.
    const error: unknown = await mkdir(dir).then(
      () => undefined,
      (plain: unknown) => plain,
    );
    if (error === undefined) return;
    throw new LinesideError('STORAGE_FAILED', `${key}: cannot make the directory ${dir}: ${messageOf(error)}`, {
      cause: failed,
      hint: 'Is its disk mounted, and may it be written?',
    });
  }
}

type Role = 'line' | 'hub';
/** Of data.dir, or of data.runtime_dir: both may be the same directory. */
type Lock = Role | `${Role}-runtime`;

function lockFile(dir: string, lock: Lock): string {
  return join(dir, `${lock}.lock`);
}

/**
 * Makes data.dir and takes it for a process of the service, which must not touch anything else before. CONFLICT: another one
 * holds it. Answers how to give it back.
 */
export async function holdDataDirectory(dir: string, role: Role): Promise<() => void> {
  await makeDirectory('data.dir', dir);
  const release = hold(dir, role);
  await chmod(dir, 0o700);
  return release;
}

/** The same for data.runtime_dir, which exists. Its mode stays: its sockets are for other users too. */
export function holdRuntimeDirectory(dir: string, role: Role): () => void {
  return hold(dir, `${role}-runtime`);
}

function hold(dir: string, lock: Lock): () => void {
  const fd = openLock(dir, lock);
  if (!tryLock(fd)) {
    closeSync(fd);
    throw new LinesideError('CONFLICT', `lineside is already running (process ${holderOf(dir, lock) ?? 'not known'})`, {
      hint: `It uses ${dir}. Stop it first: "systemctl stop lineside", or a signal TERM to the process.`,
    });
  }
  write(fd, `${process.pid}\n`);
  return () => {
    write(fd, '');
    closeSync(fd);
  };
}

export function isHeld(dir: string, role: Role): boolean {
  try {
    const fd = openSync(lockFile(dir, role), constants.O_RDONLY);
    const isFree = tryLock(fd);
    closeSync(fd);
    return !isFree;
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return false;
    throw error;
  }
}

/** The process that holds the directory, or the last one that did and was killed. */
export function holderOf(dir: string, lock: Lock): number | undefined {
  try {
    const pid = Number(readFileSync(lockFile(dir, lock), 'utf8').trim());
    return Number.isSafeInteger(pid) && pid > 1 ? pid : undefined;
  } catch {
    return undefined;
  }
}

function openLock(dir: string, lock: Lock): number {
  const path = lockFile(dir, lock);
  try {
    return openLockFile(path);
  } catch (error) {
    throw new LinesideError('STORAGE_FAILED', `cannot lock ${path}: ${messageOf(error)}`, { cause: error });
  }
}

/** For its owner alone, who is that of the directory: root must not leave a file there that the service cannot open. */
export function openLockFile(path: string): number {
  const fd = openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
  const { uid, gid } = statSync(dirname(path));
  if (process.getuid?.() === 0) fchownSync(fd, uid, gid);
  return fd;
}

function write(fd: number, text: string): void {
  ftruncateSync(fd);
  try {
    writeSync(fd, text, 0);
  } catch {
    // On a full disk the lock does without the number.
  }
}
