/**
 * serial.extra_ports: globs for PTYs, simulators and links of one's own. What a glob matches is listed only when it is a
 * tty that can be a port: never a file, a directory, a disk or a console, whatever the pattern says.
 */
import { glob, lstat, readFile, readlink, realpath, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { deviceNumber, isPtySlave, isTerminalOnly } from './device-number.ts';

export interface ExtraPort {
  readonly portName: string;
  readonly devicePath: string;
  readonly isPty: boolean;
  /** The tty's name in sysfs ("ttyUSB0"); '' for a PTY. */
  readonly sysfsName: string;
}

export function isPattern(path: string): boolean {
  return /[*?[\]{}!()]/.test(path);
}

export async function extraPorts(patterns: readonly string[], sysRoot: string): Promise<readonly ExtraPort[]> {
  const paths = new Set((await Promise.all(patterns.map(matches))).flat());
  const ports = await Promise.all([...paths].map((path) => extraPort(path, sysRoot).catch(() => undefined)));
  return ports.filter((port) => port !== undefined);
}

async function matches(pattern: string): Promise<string[]> {
  if (!pattern.startsWith('/')) return [];
  // A path may also have the characters of a pattern in its name.
  const found: string[] = (await exists(pattern)) ? [pattern] : [];
  if (!isPattern(pattern)) return found;
  try {
    for await (const path of glob(pattern)) found.push(path);
  } catch {
    // A directory that cannot be read ends the search: what was found before it counts.
  }
  return found;
}

function exists(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}

async function extraPort(portName: string, sysRoot: string): Promise<ExtraPort | undefined> {
  const devicePath = await realpath(portName);
  const found = await stat(devicePath);
  if (!found.isCharacterDevice()) return undefined;
  const number = deviceNumber(found.rdev);
  if (isPtySlave(number)) return { portName, devicePath, isPty: true, sysfsName: '' };
  if (isTerminalOnly(number)) return undefined;
  const entry = await realpath(join(sysRoot, 'dev/char', `${number.major}:${number.minor}`));
  if (basename(await readlink(join(entry, 'subsystem'))) !== 'tty') return undefined;
  const type = await readFile(join(entry, 'type'), 'utf8').catch(() => '');
  return type.trim() === '0' ? undefined : { portName, devicePath, isPty: false, sysfsName: basename(entry) };
}
