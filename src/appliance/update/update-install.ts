/**
 * Puts an update into the slot that does not run, and has it tried at the next start. The order is the promise: everything
 * is verified before anything is written, nothing of the running slot is ever touched, and slot.txt comes last, so that a
 * plug pulled at any step leaves the running slot as it is, and an install is simply run again.
 */
import { createHash, createPublicKey } from 'node:crypto';
import { constants, fsyncSync, mkdirSync, readFileSync, rmSync, statfsSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { LinesideError, messageOf, systemCode } from '../../shared/base/errors.ts';
import { dropPages } from '../../shared/base/libc.ts';
import {
  freeBytes,
  namesIn,
  notStored,
  opened,
  openFault,
  readDifferently,
  syncPath,
  writeSynced,
  writeWhole,
} from '../disk.ts';
import { hashed, measured } from '../hash.ts';
import { Cursor, filePieces, type TarEntry, tarEntries } from '../tar.ts';
import {
  type BootFacts,
  readBootFacts,
  readSlots,
  sizeOfDevice,
  type UpdateTarget,
  withBoot,
  writeSlots,
} from './boot-partition.ts';
import { compareVersions } from './release.ts';
import { onTrial, otherSlot, type Slot, type SlotState, settled } from './slots.ts';
import { type Bundle, checkPart, type Manifest, openBundle, type Part, readKey } from './update-bundle.ts';

export interface CheckOptions {
  readonly file: string;
  readonly target: UpdateTarget;
  readonly allowDowngrade: boolean;
  readonly onProgress: (what: string, doneBytes: number, ofBytes: number) => void;
}

export interface InstallOptions extends CheckOptions {
  /** Before each step that writes; tests end the process here. */
  readonly onStep?: (step: string) => void;
}

export interface Installed {
  readonly slot: Slot;
  readonly manifest: Manifest;
}

export function installUpdate(options: InstallOptions): Installed {
  using input = openBundleFile(options.file);
  const { bundle, facts, state, slot } = fitting(input.fd, options);
  using device = openRoot(options.target.rootDevice(facts, slot));
  verify(bundle, facts, slot, options);
  write(bundle, device.fd, state, options);
  return { slot, manifest: bundle.manifest };
}

/** Everything that an install verifies before it writes. It needs no right to write. */
export function checkUpdate(options: CheckOptions): Installed {
  using input = openBundleFile(options.file);
  const { bundle, facts, slot } = fitting(input.fd, options);
  verify(bundle, facts, slot, options);
  return { slot, manifest: bundle.manifest };
}

/** A bundle that is signed, for this box and its present state. */
function fitting(fd: number, options: CheckOptions) {
  const { target } = options;
  const bundle = openBundle(fd, readKey(target.keyFile, createPublicKey));
  checkFits(bundle.manifest, options);
  const facts = readBootFacts(target);
  const state = readSlots(target.bootDir);
  checkState(state, facts);
  return { bundle, facts, state, slot: otherSlot(facts.slot) };
}

function openBundleFile(file: string): ReturnType<typeof opened> {
  try {
    return opened(file, 'r');
  } catch (error) {
    throw new LinesideError('NOT_FOUND', `cannot install ${file}: ${openFault(error)}`, { cause: error });
  }
}

function checkFits({ board, version }: Manifest, { target, allowDowngrade }: CheckOptions): void {
  const own = readFileSync(target.boardFile, 'utf8').trim();
  if (board !== own) {
    throw new LinesideError('CONFLICT', `the bundle is for ${board}, this box is ${own}`, {
      hint: 'Take the bundle that was made for this kind of box.',
    });
  }
  if (allowDowngrade || compareVersions(version, target.version) >= 0) return;
  throw new LinesideError('CONFLICT', `the bundle has version ${version}, older than the ${target.version} that runs`, {
    hint: 'With --allow-downgrade it is installed all the same; databases that it cannot read stay as they are, and it does not start with them.',
  });
}

/** Only a slot that is known to be good is what an update can fall back to. */
function checkState({ good, trying }: SlotState, { slot }: BootFacts): void {
  if (trying === slot) {
    throw new LinesideError('CONFLICT', `slot ${slot} is on trial`, {
      hint: 'The health check marks it good within minutes, or the box returns to the other slot. Try: lineside update mark-good',
    });
  }
  if (good === slot) return;
  throw new LinesideError('CONFLICT', `slot ${slot} runs, but ${good} is the one that is known to be good`, {
    hint: 'Restart the box; where it comes up with the same slot, "lineside update mark-good" makes that the good one.',
  });
}

function checkRootFits({ manifest }: Bundle, target: UpdateTarget, facts: BootFacts, slot: Slot): void {
  const [, root] = manifest.parts;
  const room = sizeOfDevice(target.rootDevice(facts, slot));
  if (root.bytes <= room) return;
  throw new LinesideError('TOO_LARGE', `the root of the bundle has ${root.bytes} bytes, slot ${slot} takes ${room}`, {
    hint: 'It is for a card with another layout: write a new card.',
  });
}

function verify(bundle: Bundle, facts: BootFacts, slot: Slot, { target, onProgress }: CheckOptions): void {
  checkRootFits(bundle, target, facts, slot);
  const [boot, root] = bundle.manifest.parts;
  const all = boot.bytes + root.bytes;
  let done = 0;
  const onPiece = (bytes: number): void => onProgress('verifying the bundle', (done += bytes), all);
  checkPart(bundle, boot, onPiece);
  // Before the root, which takes its time.
  checkBootFits(checkBootPart(bundle.part('boot')), target.bootDir, slotDir(target, slot));
  checkPart(bundle, root, onPiece);
}

/** `state`: the running slot is the good one. */
function write(bundle: Bundle, device: number, state: SlotState, options: InstallOptions): void {
  const { target, onProgress, onStep } = options;
  const [boot, root] = bundle.manifest.parts;
  const slot = otherSlot(state.good);
  const step = (name: string): void => onStep?.(name);
  const counted = (what: string): ((bytes: number) => void) => {
    let done = 0;
    return (bytes) => {
      step(what);
      onProgress(what, (done += bytes), root.bytes);
    };
  };
  // Installed and never started: it must not be started half overwritten.
  if (state.trying !== undefined) withBoot(target, () => writeSlots(target.bootDir, settled(state.good)));
  step('root');
  writeRoot(device, root, bundle.part('root'), counted('writing the root'));
  compareRoot(device, root, counted('reading it back'));
  withBoot(target, () => {
    step('boot');
    const hash = createHash('sha256');
    const content = bundle.part('boot', (piece) => hash.update(piece));
    unpackBoot(content, slotDir(target, slot), slot, slotDir(target, state.good));
    if (hash.digest('hex') !== boot.sha256) throw readDifferently('the bundle', 'switched');
    compareBoot(bundle.part('boot'), slotDir(target, slot));
    step('slot.txt');
    writeSlots(target.bootDir, onTrial(state.good));
    step('done');
  });
}

function slotDir(target: UpdateTarget, slot: Slot): string {
  return join(target.bootDir, slot);
}

// The root part of a bundle onto a slot's partition, and read back from the medium.

/** Written and not yet synced: what the kernel holds in memory of it, and how far the shown progress may be ahead. */
const syncEveryBytes = 16 * 1024 * 1024;

/**
 * O_EXCL on a block device: refused where it is mounted, or open like this elsewhere (two updates at once). The caller keeps
 * it open until the update is through.
 */
function openRoot(device: string): ReturnType<typeof opened> {
  try {
    return opened(device, constants.O_RDWR | constants.O_EXCL);
  } catch (error) {
    const isBusy = systemCode(error) === 'EBUSY';
    throw new LinesideError(isBusy ? 'CONFLICT' : 'STORAGE_FAILED', `${device} cannot be opened: ${messageOf(error)}`, {
      cause: error,
      hint: isBusy ? 'It is mounted, or another update is at work on it.' : 'Are you root?',
    });
  }
}

/**
 * The first piece holds what makes it a file system: it is zeros until all else is on the medium, so that a root that was cut
 * short is not a file system. Throws MALFORMED if the content differs from the signed one.
 */
function writeRoot(fd: number, part: Part, content: Cursor, onPiece: (bytes: number) => void): void {
  const hash = createHash('sha256');
  let first: Buffer | undefined;
  let at = 0;
  let unsynced = 0;
  for (const piece of hashed(content.pieces(part.bytes), hash)) {
    if (first === undefined) {
      first = Buffer.from(piece);
      writeWhole(fd, Buffer.alloc(piece.length), 0);
      fsyncSync(fd);
    } else writeWhole(fd, piece, at);
    at += piece.length;
    unsynced += piece.length;
    if (unsynced >= syncEveryBytes) {
      fsyncSync(fd);
      dropPages(fd);
      unsynced = 0;
    }
    onPiece(piece.length);
  }
  if (hash.digest('hex') !== part.sha256) throw readDifferently('the bundle', 'switched');
  fsyncSync(fd);
  if (first !== undefined) writeWhole(fd, first, 0);
  fsyncSync(fd);
}

/** From the medium: the pages that the kernel keeps of it are dropped first. Throws STORAGE_FAILED. */
function compareRoot(fd: number, part: Part, onPiece: (bytes: number) => void): void {
  dropPages(fd);
  const { sha256 } = measured(new Cursor(fd, 0, part.bytes).pieces(part.bytes), (piece) => onPiece(piece.length));
  if (sha256 !== part.sha256) throw notStored('the partition', ': nothing was switched');
}

// The boot part of a bundle: what may be in it, and how it becomes the files of a slot on the boot partition.

/** A kernel's command line is limited to 2,048 on arm64. */
const maxCommandLineBytes = 2_048;
const commandLine = 'cmdline.txt';

/** Checks names and sizes before anything is written. Throws MALFORMED. */
function checkBootPart(cursor: Cursor): TarEntry[] {
  const entries: TarEntry[] = [];
  const seen = new Map<string, boolean>([['.', true]]);
  for (const { entry } of tarEntries(cursor)) {
    const { path, isDirectory } = entry;
    // FAT knows no difference between a and A.
    const name = path.toLowerCase();
    if (seen.has(name)) throw malformed(`${path} is in it twice`);
    if (seen.get(dirname(name)) !== true) throw malformed(`${path} is in no directory of it`);
    if (name === commandLine && entry.bytes > maxCommandLineBytes) throw malformed(`${path} is too long`);
    seen.set(name, isDirectory);
    entries.push(entry);
  }
  return entries;
}

/** `slotDir`: is emptied first. Throws STORAGE_FULL. */
function checkBootFits(entries: readonly TarEntry[], bootDir: string, slotDir: string): void {
  const needed = bytesOnFat(entries, statfsSync(bootDir).bsize);
  const free = freeBytes(bootDir) + bytesTakenBy(slotDir);
  if (needed <= free) return;
  throw new LinesideError('STORAGE_FULL', `the boot files need ${needed} bytes, the boot partition has ${free}`, {
    hint: "Remove from it what is not lineside's.",
  });
}

/** Of each name in a directory, and of each 13 characters of a name that is no short one. */
const fatEntryBytes = 32;
const fatLongNamePart = 13;

/** FAT gives whole clusters to every file and directory: many small files take several times their bytes. */
function bytesOnFat(entries: readonly TarEntry[], clusterBytes: number): number {
  // A directory begins with "." and "..".
  const emptyDirectory = 2 * fatEntryBytes;
  const sizes = new Map([['.', emptyDirectory]]);
  const add = (path: string, bytes: number): void => {
    const dir = dirname(path);
    const nameEntries = 1 + Math.ceil(basename(path).length / fatLongNamePart);
    sizes.set(dir, (sizes.get(dir) ?? 0) + nameEntries * fatEntryBytes);
    sizes.set(path, bytes);
  };
  // Written whether the bundle has one or not, with this slot's name.
  add(commandLine, maxCommandLineBytes);
  for (const { path, isDirectory, bytes } of entries)
    if (path !== commandLine) add(path, isDirectory ? emptyDirectory : bytes);
  return [...sizes.values()].reduce((sum, bytes) => sum + Math.ceil(bytes / clusterBytes) * clusterBytes, 0);
}

/** stat counts in 512 bytes, whatever the file system's clusters are. */
function bytesTakenBy(dir: string): number {
  return ['.', ...namesIn(dir, true)].reduce((sum, name) => {
    const blocks = statSync(join(dir, name), { throwIfNoEntry: false })?.blocks ?? 0;
    return sum + blocks * 512;
  }, 0);
}

/** Empties the directory, then writes and syncs every file. The slot's own name goes into its kernel's command line. */
function unpackBoot(cursor: Cursor, dir: string, slot: Slot, runningDir: string): void {
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir);
  let hasCommandLine = false;
  for (const { entry, content } of tarEntries(cursor)) {
    const path = join(dir, entry.path);
    hasCommandLine ||= entry.path === commandLine;
    if (entry.isDirectory) mkdirSync(path);
    else if (entry.path !== commandLine) writeFile(path, content);
    // A piece is valid until the next one is read.
    else writeFile(path, [slotCommandLine(Buffer.concat(Array.from(content, (piece) => Buffer.from(piece))), slot)]);
  }
  // A bundle without one keeps the options that this box runs with.
  if (!hasCommandLine)
    writeFile(join(dir, commandLine), [slotCommandLine(readFileSync(join(runningDir, commandLine)), slot)]);
  for (const name of [...namesIn(dir, true).filter((one) => statSync(join(dir, one)).isDirectory()), '.', '..']) {
    syncPath(join(dir, name));
  }
}

/** From the medium. Throws STORAGE_FAILED where a file is not what the bundle holds. */
function compareBoot(cursor: Cursor, dir: string): void {
  for (const { entry, content } of tarEntries(cursor)) {
    if (entry.isDirectory || entry.path === commandLine) continue;
    const path = join(dir, entry.path);
    const stored = filePieces(path, entry.bytes);
    for (const piece of content) {
      const { value } = stored.next();
      if (!(value instanceof Buffer && value.equals(piece))) throw notStored(path);
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

function writeFile(path: string, content: Iterable<Buffer>): void {
  writeSynced(path, content, 'wx', 0o644, dropPages);
}

function malformed(what: string): LinesideError {
  return new LinesideError('MALFORMED', `the boot files of the bundle cannot be used: ${what}`);
}
