/**
 * Many files changed as one: the new ones are written and flushed together in one directory, whose renaming is the
 * commit point; then each is moved to its place. A power cut before the commit point leaves everything as it was; after it,
 * finish() resumes where it was cut, any number of times. The places may be on different file systems and bind mounts.
 */
import { accessSync, constants, existsSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { LinesideError, messageOf, systemCode } from '../shared/base/errors.ts';
import { type Box, etc } from './box.ts';
import type { Disk } from './disk.ts';

export interface Change {
  /** Absolute, below the box's root. */
  readonly place: string;
  /** undefined: the file is removed. */
  readonly content: string | Buffer | undefined;
  readonly mode: number;
  /** Its members may read the file beside root, if the mode allows it. */
  readonly group?: string;
  /** Of the directory, where it is to be made; 0755 unless said. */
  readonly dirMode?: number;
}

/** A file for root alone, in a directory for root alone. */
export function closed(place: string, content: Change['content']): Change {
  return { place, content, mode: 0o600, dirMode: 0o700 };
}

export function open(place: string, content: Change['content']): Change {
  return { place, content, mode: 0o644 };
}

type Entry = Omit<Change, 'content'> & { readonly removed: boolean };

const PENDING = join(etc.setup, 'pending');
const STAGED = join(etc.setup, 'pending.new');
const MANIFEST = 'manifest.json';
const OPEN_DIR = 0o755;
const CLOSED_DIR = 0o700;
const CLOSED_FILE = 0o600;

/** Makes all changes, or none if it throws before the commit point. */
export function commit(box: Box, disk: Disk, changes: readonly Change[]): void {
  finish(box, disk);
  const wanted = changes.filter((change) => !isInPlace(box, change));
  if (wanted.length === 0) return;
  for (const { place } of wanted) demandWritable(box, place);
  const staged = box.path(STAGED);
  disk.remove(staged);
  makeDirs(disk, box.path(etc.setup), CLOSED_DIR);
  disk.makeDir(staged, CLOSED_DIR);
  wanted.forEach(({ content }, i) => {
    if (content !== undefined) disk.write(join(staged, `${i}`), Buffer.from(content), CLOSED_FILE);
  });
  const entries: Entry[] = wanted.map(({ content, ...rest }) => ({ ...rest, removed: content === undefined }));
  disk.write(join(staged, MANIFEST), Buffer.from(JSON.stringify(entries)), CLOSED_FILE);
  disk.flushDir(staged);
  disk.rename(staged, box.path(PENDING));
  disk.flushDir(box.path(etc.setup));
  finish(box, disk);
}

/** Puts in place what an interrupted commit has left to do; false: nothing. */
export function finish(box: Box, disk: Disk): boolean {
  const entries = box.object(join(PENDING, MANIFEST)) as Entry[] | undefined;
  const left = box.path(PENDING);
  if (entries === undefined) {
    // Interrupted while it was being removed.
    if (existsSync(left)) disk.remove(left);
    return false;
  }
  entries.forEach((entry, i) => {
    const content = entry.removed ? undefined : box.read(join(PENDING, `${i}`));
    putInPlace(box, disk, { ...entry, content });
  });
  // The manifest first: a directory without one is removed by the next call.
  disk.remove(join(left, MANIFEST));
  disk.flushDir(left);
  disk.remove(left);
  disk.flushDir(box.path(etc.setup));
  return true;
}

function putInPlace(box: Box, disk: Disk, change: Change): void {
  if (isInPlace(box, change)) return;
  const target = box.path(change.place);
  const directory = dirname(target);
  makeDirs(disk, directory, change.dirMode ?? OPEN_DIR);
  if (change.content === undefined) disk.remove(target);
  else replace(box, disk, change, Buffer.from(change.content));
  disk.flushDir(directory);
}

function replace(box: Box, disk: Disk, { place, mode, group }: Change, bytes: Buffer): void {
  const target = box.path(place);
  const beside = join(dirname(target), `.${basename(target)}.new`);
  const gid = group === undefined ? undefined : box.group(group);
  try {
    disk.write(beside, bytes, mode);
    if (gid !== undefined && statSync(beside).gid !== gid) disk.owner(beside, statSync(beside).uid, gid);
    disk.rename(beside, target);
  } catch (error) {
    // A file that is itself a mount point cannot be renamed over, and its directory may be read-only. Interrupted halfway,
    // it is written again by finish().
    if (!['EBUSY', 'EROFS'].includes(systemCode(error)) || !existsSync(target)) throw error;
    disk.overwrite(target, bytes);
    disk.remove(beside);
  }
}

function isInPlace(box: Box, { place, content, mode, group }: Change): boolean {
  const there = box.read(place);
  if (content === undefined || there === undefined) return content === there;
  const status = statSync(box.path(place));
  const gid = group === undefined ? undefined : box.group(group);
  return there.equals(Buffer.from(content)) && (status.mode & 0o7777) === mode && (gid ?? status.gid) === status.gid;
}

/** Before anything is begun: a read-only place would leave the rest waiting for it at every start. */
function demandWritable(box: Box, place: string): void {
  let directory = dirname(box.path(place));
  while (!existsSync(directory) && directory !== dirname(directory)) directory = dirname(directory);
  // Its directory may be read-only where the file itself is bound in from elsewhere.
  const candidates = existsSync(box.path(place)) ? [directory, box.path(place)] : [directory];
  let failure: unknown;
  for (const candidate of candidates) {
    try {
      accessSync(candidate, constants.W_OK);
      return;
    } catch (error) {
      failure ??= error;
    }
  }
  throw new LinesideError('CONFIG_INVALID', `${place} cannot be written: ${messageOf(failure)}`, {
    cause: failure,
    hint: 'run it as root',
  });
}

/** Each missing directory is made and its name flushed in the one above. */
function makeDirs(disk: Disk, directory: string, mode: number): void {
  if (existsSync(directory)) return;
  const above = dirname(directory);
  makeDirs(disk, above, mode === CLOSED_DIR && basename(above) === 'secrets' ? CLOSED_DIR : OPEN_DIR);
  disk.makeDir(directory, mode);
  disk.flushDir(above);
}
