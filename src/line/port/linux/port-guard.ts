/**
 * The first open of a port, before anything about it is changed. serialport's own open runs tcsetattr before it
 * tries its lock, so that a refused open would spoil a port that another process is using; and libuv reopens a tty,
 * which loses the lock with the first open file. So the guard looks first, takes the lock (flock), and stays open
 * as long as the device does: it is also the descriptor for writing and for every ioctl.
 */
import { constants, type Stats } from 'node:fs';
import { open, readFile, readlink, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type ErrorCode, LinesideError, messageOf, systemCode } from '../../../shared/base/errors.ts';
import { tryLock } from '../../../shared/base/libc.ts';
import { holdersOf, processText, runningOf } from '../../../shared/base/processes.ts';
import type { Termios } from '../../../shared/base/termios.ts';
import type { PortToOpen } from '../inventory.ts';
import { deviceNumber, isTerminalOnly } from '../sysfs.ts';
import { getTermios, isExclusive, setExclusive } from './tty-ioctl.ts';

export interface PortGuard {
  readonly fd: number;
  /** The line's settings as they were found. */
  readonly former: Termios;
  /** Gives the lock back; not the last close of the port, so it never waits for the line. */
  close(): Promise<void>;
}

const GUARD_FLAGS = constants.O_RDWR | constants.O_NOCTTY | constants.O_NONBLOCK;

export async function guardPort(port: PortToOpen): Promise<PortGuard> {
  const path = port.devicePath;
  const found = await stat(path).catch((thrown: unknown) => {
    throw openError(path, thrown);
  });
  await refuseNonTty(path, found);
  const lockHolder = port.isPty ? undefined : await lockFileHolder(path);
  if (lockHolder !== undefined) throw portBusy(path, lockHolder);
  const file = await open(path, GUARD_FLAGS).catch(async (thrown: unknown) => {
    throw openError(path, thrown, systemCode(thrown) === 'EBUSY' ? await openHolder(path) : undefined);
  });
  try {
    // The path may have become something else in between.
    if ((await file.stat()).rdev !== found.rdev) throw new LinesideError('PORT_IO', `${path} changed while opening`);
    const former = getTermios(file.fd);
    await refuseHeld(port, file.fd);
    return { fd: file.fd, former, close: () => file.close() };
  } catch (thrown) {
    await file.close().catch(() => {});
    throw openError(path, thrown);
  }
}

/** Opening alone can do harm (a watchdog, a tape): only character devices of the tty class get that far. */
async function refuseNonTty(path: string, found: Stats): Promise<void> {
  if (found.isDirectory()) throw notASerialPort(path, 'a directory');
  if (found.isBlockDevice()) throw notASerialPort(path, 'a disk or other block device');
  if (!found.isCharacterDevice()) throw notASerialPort(path, 'not a device');
  const number = deviceNumber(found.rdev);
  if (isTerminalOnly(number)) throw notASerialPort(path, 'a terminal or console');
  // PTY slaves have no entry there; TCGETS2 distinguishes the others.
  const subsystem = await readlink(`/sys/dev/char/${number.major}:${number.minor}/subsystem`).catch(() => 'tty');
  if (basename(subsystem) !== 'tty') throw notASerialPort(path, `a device of the kind "${basename(subsystem)}"`);
}

function notASerialPort(path: string, what: string): LinesideError {
  return new LinesideError('PORT_IO', `cannot open ${path}: it is ${what}, not a serial port`);
}

async function refuseHeld(port: PortToOpen, fd: number): Promise<void> {
  const path = port.devicePath;
  if (!tryLock(fd)) throw portBusy(path, await openHolder(path));
  if (!isExclusive(fd)) return;
  const holder = await openHolder(path);
  // A real port loses the flag with its last close. A PTY keeps it while its master lives, so one that was left by
  // a killed process (only seen by who may open it in spite of it, root) means nothing if no process has it open.
  if (!port.isPty || holder !== undefined) throw portBusy(path, holder);
  setExclusive(fd, false);
}

/**
 * Keeps others (not root) from opening the port. On a PTY the flag outlives a killed process, and without root's
 * rights no process could open it again: there it is set only if we could get past it ourselves.
 */
export async function claimExclusive(port: PortToOpen, fd: number): Promise<void> {
  setExclusive(fd, true);
  if (!port.isPty) return;
  const again = await open(port.devicePath, GUARD_FLAGS).catch(() => undefined);
  if (again === undefined) setExclusive(fd, false);
  else await again.close();
}

// The other process that holds a port, from /proc and the lock files. Nothing here opens the port.

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

// The system's error when a port cannot be opened, as an error of the catalogue.

type Meaning = readonly [code: ErrorCode, text: string, hint?: string];

const gone: Meaning = ['PORT_NOT_FOUND', 'there is no such port now'];
const notATty: Meaning = ['PORT_IO', 'it is not a serial port'];
const noDialout = 'the service must be in the group that owns the device, usually dialout';
const meanings: Readonly<Record<string, Meaning>> = {
  ENOENT: gone,
  ENXIO: gone,
  ENODEV: gone,
  EACCES: ['PORT_PERMISSION', 'permission denied', noDialout],
  EPERM: ['PORT_PERMISSION', 'operation not permitted', 'see DeviceAllow in the service unit'],
  ENOTTY: notATty,
  EISDIR: notATty,
};

/** serialport's errors carry no code: these are its texts. */
const bindingTexts: readonly (readonly [RegExp, string])[] = [
  [/No such (file or directory|device)/, 'ENOENT'],
  [/Permission denied/, 'EACCES'],
  [/Operation not permitted/, 'EPERM'],
  [/Is a directory/, 'EISDIR'],
  [/Inappropriate ioctl for device/, 'ENOTTY'],
  [/Cannot lock port|Device or resource busy/, 'EBUSY'],
];

export function openError(path: string, thrown: unknown, holder?: string): LinesideError {
  if (thrown instanceof LinesideError) return thrown;
  const text = messageOf(thrown);
  const code = systemCode(thrown) || (bindingTexts.find(([pattern]) => pattern.test(text))?.[1] ?? '');
  if (code === 'EBUSY') return portBusy(path, holder, thrown);
  const [known, why, hint = ''] = meanings[code] ?? ['PORT_IO', text];
  return new LinesideError(known, `cannot open ${path}: ${why}`, { cause: thrown, hint });
}

function portBusy(path: string, holder: string | undefined, cause?: unknown): LinesideError {
  const who = holder ?? 'another process';
  return new LinesideError('PORT_BUSY', `cannot open ${path}: ${who} holds it`, {
    hint: `stop ${who} and try again`,
    cause,
  });
}
