/** The boot part of a bundle: what may be in it, and how it becomes the files of a slot on the boot partition. */
import { mkdirSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { LinesideError } from '../../shared/base/errors.ts';
import { dropPages } from '../../shared/base/libc.ts';
import { syncPath, writeSynced } from '../disk.ts';
import { type Cursor, filePieces, tarEntries } from '../tar.ts';
import type { Slot } from './slots.ts';

/** A kernel's command line is limited to 2,048 on arm64. */
const maxCommandLineBytes = 2_048;
const commandLine = 'cmdline.txt';
/** FAT: a cluster for each name at most, and the directories' own. */
const clusterBytes = 32 * 1024;

/** Names and sizes, before anything is written. Throws MALFORMED. Answers the bytes that the files will take at most. */
export function checkBootPart(cursor: Cursor): number {
  const seen = new Map<string, boolean>([['.', true]]);
  let bytes = 0;
  for (const { entry } of tarEntries(cursor)) {
    const { path, isDirectory } = entry;
    // FAT knows no difference between a and A.
    const name = path.toLowerCase();
    if (seen.has(name)) throw malformed(`${path} is in it twice`);
    if (seen.get(dirname(name)) !== true) throw malformed(`${path} is in no directory of it`);
    if (name === commandLine && entry.bytes > maxCommandLineBytes) throw malformed(`${path} is too long`);
    seen.set(name, isDirectory);
    bytes += entry.bytes + clusterBytes;
  }
  return bytes;
}

export function bytesIn(dir: string): number {
  return namesIn(dir).reduce((sum, name) => sum + statSync(join(dir, name)).size, 0);
}

/** Empties the directory, then writes and syncs every file. The slot's own name goes into its kernel's command line. */
export function unpackBoot(cursor: Cursor, dir: string, slot: Slot, runningDir: string): string[] {
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir);
  const written: string[] = [];
  for (const { entry, content } of tarEntries(cursor)) {
    const path = join(dir, entry.path);
    if (entry.isDirectory) mkdirSync(path);
    else if (entry.path === commandLine) writeFile(path, [slotCommandLine(Buffer.concat([...copied(content)]), slot)]);
    else writeFile(path, content);
    written.push(entry.path);
  }
  if (!written.includes(commandLine)) {
    // A bundle without one keeps the options that this box runs with.
    writeFile(join(dir, commandLine), [slotCommandLine(readFileSync(join(runningDir, commandLine)), slot)]);
    written.push(commandLine);
  }
  for (const name of [...namesIn(dir).filter((one) => statSync(join(dir, one)).isDirectory()), '.', '..']) {
    syncPath(join(dir, name));
  }
  return written;
}

/** From the medium. Throws STORAGE_FAILED where a file is not what the bundle holds. */
export function compareBoot(cursor: Cursor, dir: string): void {
  for (const { entry, content } of tarEntries(cursor)) {
    if (entry.isDirectory || entry.path === commandLine) continue;
    const path = join(dir, entry.path);
    const stored = filePieces(path, entry.bytes);
    for (const piece of content) {
      const { value } = stored.next();
      if (!(value instanceof Buffer && value.equals(piece))) {
        throw new LinesideError('STORAGE_FAILED', `${path} does not hold what was written to it`, {
          hint: 'The card is failing: make a backup and write a new card.',
        });
      }
    }
  }
}

/** "lineside.slot=" with any word becomes this slot's. Throws MALFORMED where it is not there once. */
function slotCommandLine(text: Buffer, slot: Slot): Buffer {
  const words = text.toString('latin1').trim().split(/\s+/);
  const own = words.filter((word) => word.startsWith('lineside.slot='));
  if (own.length !== 1) throw malformed(`its ${commandLine} does not name the slot once`);
  return Buffer.from(
    `${words.map((word) => (word.startsWith('lineside.slot=') ? `lineside.slot=${slot}` : word)).join(' ')}\n`,
    'latin1',
  );
}

function* copied(content: Iterable<Buffer>): Generator<Buffer, void, void> {
  for (const piece of content) yield Buffer.from(piece);
}

function writeFile(path: string, content: Iterable<Buffer>): void {
  writeSynced(path, content, 'wx', 0o644, dropPages);
}

function namesIn(dir: string): string[] {
  try {
    return readdirSync(dir, { recursive: true, encoding: 'utf8' });
  } catch {
    // The slot was never written.
    return [];
  }
}

function malformed(what: string): LinesideError {
  return new LinesideError('MALFORMED', `the boot files of the bundle cannot be used: ${what}`);
}
