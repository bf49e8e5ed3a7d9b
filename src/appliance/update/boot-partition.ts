/**
 * The boot partition of this box: what is known of the running slot, slot.txt (read, and overwritten in place, so that its
 * sector and its directory entry stay where they are), and the request for a factory reset.
 */
import { spawnSync } from 'node:child_process';
import { constants, fsyncSync, readFileSync, readSync, statSync, writeFileSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { LinesideError, messageOf, systemCode } from '../../shared/base/errors.ts';
import { dropPages } from '../../shared/base/libc.ts';
import { notStored, opened, syncPath, writeSynced } from '../disk.ts';
import { isSlot, parseSlots, renderSlots, type Slot, type SlotState, settled, slotFileBytes } from './slots.ts';

export interface UpdateTarget {
  /** The boot partition, mounted read-only: slot.txt, a/, b/. */
  readonly bootDir: string;
  /** Public key (PEM) that bundles must be signed for. */
  readonly keyFile: string;
  /** One line: what the image was built for. */
  readonly boardFile: string;
  /** What the initramfs found at this start: NAME=VALUE lines. */
  readonly factsFile: string;
  /** Of the lineside that runs this command. */
  readonly version: string;
  /** Block device (in tests a file) of a slot's root. */
  rootDevice(facts: BootFacts, slot: Slot): string;
  remountBoot(mode: 'rw' | 'ro'): void;
}

export interface BootFacts {
  readonly slot: Slot;
  /** Of the card's partitions, without their number: "/dev/mmcblk0p". */
  readonly partitions: string;
}

const bootDir = '/boot/firmware';

export function ownTarget(version: string): UpdateTarget {
  return {
    bootDir,
    keyFile: '/usr/lib/lineside/update.pub',
    boardFile: '/usr/lib/lineside/board',
    factsFile: '/run/lineside-boot',
    version,
    rootDevice: ({ partitions }, slot) => `${partitions}${slot === 'a' ? 2 : 3}`,
    remountBoot: (mode) => remount(bootDir, mode),
  };
}

function remount(dir: string, mode: 'rw' | 'ro'): void {
  const { status, stderr, error } = spawnSync('mount', ['-o', `remount,${mode}`, dir], { encoding: 'utf8' });
  if (status === 0) return;
  throw new LinesideError('STORAGE_FAILED', `${dir} cannot be remounted ${mode}: ${error?.message ?? stderr.trim()}`, {
    cause: error,
    hint: 'Are you root? A boot partition with errors stays read-only: restart the box, which checks it.',
  });
}

/** Read-only again whatever happens: a pulled plug harms nothing that is not being written. */
export function withBoot(target: Pick<UpdateTarget, 'remountBoot'>, work: () => void): void {
  target.remountBoot('rw');
  try {
    work();
  } finally {
    target.remountBoot('ro');
  }
}

/** Throws UNSUPPORTED if this machine was not started from slots. */
export function readBootFacts(target: UpdateTarget): BootFacts {
  let text: string;
  try {
    text = readFileSync(target.factsFile, 'utf8');
  } catch (error) {
    throw withoutSlots('was not started from slots', error);
  }
  const facts = new Map(text.split('\n').map((line) => [line.replace(/=.*/, ''), line.replace(/^[^=]*=/, '')]));
  const slot = facts.get('SLOT');
  if (!isSlot(slot)) throw new LinesideError('NOT_READY', `${target.factsFile} does not say which slot runs`);
  return { slot, partitions: facts.get('PART') ?? '' };
}

function withoutSlots(why: string, cause: unknown): LinesideError {
  const detail = systemCode(cause) === 'ENOENT' ? '' : ` (${messageOf(cause)})`;
  return new LinesideError('UNSUPPORTED', `cannot use update slots: this machine ${why}${detail}`, {
    cause,
    hint: 'Updates of this kind are for the image. A Debian package is updated by apt. Try: sudo apt upgrade lineside',
  });
}

export function sizeOfDevice(path: string): number {
  const stat = statSync(path);
  if (!stat.isBlockDevice()) return stat.size;
  // makedev(3) of Linux; sysfs counts in sectors of 512 bytes whatever the device's own are.
  const major = Math.floor(stat.rdev / 0x100) & 0xfff;
  const minor = (stat.rdev & 0xff) | (Math.floor(stat.rdev / 0x1000) & 0xfff00);
  return Number(readFileSync(join('/sys/dev/block', `${major}:${minor}`, 'size'), 'utf8')) * 512;
}

export function readUpdateStatus(target: UpdateTarget) {
  const { slot } = readBootFacts(target);
  const { good, trying, left, failed } = readSlots(target.bootDir);
  const onTrial = trying === slot;
  const { version } = target;
  return { version, running: slot, onTrial, good, trying: trying ?? null, triesLeft: left, failed: failed ?? null };
}

function slotFile(bootDir: string): string {
  return join(bootDir, 'slot.txt');
}

/** Throws UNSUPPORTED if there are no slots here, NOT_READY if the file says none. */
export function readSlots(bootDir: string): SlotState {
  const path = slotFile(bootDir);
  let text: string;
  try {
    text = readFileSync(path, 'latin1');
  } catch (error) {
    throw withoutSlots('has no slots', error);
  }
  const state = parseSlots(text);
  if (state === undefined) {
    throw new LinesideError('NOT_READY', `${path} does not say which slot is good`, {
      hint: 'The box keeps starting the slot that runs now. Write a new card, or repair the file by its twin on another box.',
    });
  }
  return state;
}

/** On the medium when it returns, and read back from there. The partition must be writable. */
export function writeSlots(bootDir: string, state: SlotState): void {
  const path = slotFile(bootDir);
  const bytes = Buffer.from(renderSlots(state), 'latin1');
  using file = opened(path, constants.O_RDWR | constants.O_SYNC);
  const { fd } = file;
  const written = writeSync(fd, bytes, 0, slotFileBytes, 0);
  fsyncSync(fd);
  dropPages(fd);
  const back = Buffer.alloc(slotFileBytes);
  if (written !== slotFileBytes || readSync(fd, back, 0, slotFileBytes, 0) !== slotFileBytes || !back.equals(bytes))
    throw notStored(path);
}

export function markGood(target: UpdateTarget): { readonly slot: Slot; readonly wasGood: boolean } {
  const { slot } = readBootFacts(target);
  const { good, trying } = readSlots(target.bootDir);
  // If the other slot waits to be tried, it keeps waiting.
  const wasGood = good === slot && trying !== slot;
  if (!wasGood) withBoot(target, () => writeSlots(target.bootDir, settled(slot)));
  endTrial(target.factsFile);
  return { slot, wasGood };
}

/** The hub, which does not see the boot partition, reads here that the slot was kept. */
function endTrial(factsFile: string): void {
  const facts = readFileSync(factsFile, 'utf8');
  // In memory, and in place: it keeps its mode.
  if (/^TRYING=yes$/m.test(facts)) writeFileSync(factsFile, facts.replace(/^TRYING=yes$/m, 'TRYING=no'));
}

/**
 * Asks the next start of the box to delete all data: while it runs, its data partition is in use. The request names this box: on a card that was put into another one it asks for nothing. What runs before anything is
 * mounted obeys it, marks the data partition as empty, and removes it.
 */
export function requestFactoryReset(target: UpdateTarget, machineIdFile = '/etc/machine-id'): void {
  readBootFacts(target);
  const machineId = readFileSync(machineIdFile, 'utf8').trim();
  if (!/^[0-9a-f]{32}$/.test(machineId)) {
    throw new LinesideError('NOT_READY', `${machineIdFile} does not say which box this is`, {
      hint: 'Write a new card instead.',
    });
  }
  withBoot(target, () => {
    writeSynced(join(target.bootDir, 'factory-reset'), [Buffer.from(`${machineId}\n`)]);
    syncPath(target.bootDir);
  });
}
