/** Where an update goes on this box: the boot partition, the slots' root partitions, and what is known of the running one. */
import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { LinesideError, messageOf } from '../../shared/base/errors.ts';
import { isSlot, type Slot } from './slots.ts';

export interface UpdatePlace {
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

export function ownPlace(version: string): UpdatePlace {
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
export function withBoot(place: Pick<UpdatePlace, 'remountBoot'>, work: () => void): void {
  place.remountBoot('rw');
  try {
    work();
  } finally {
    place.remountBoot('ro');
  }
}

/** Throws NOT_READY where this machine was not started from slots. */
export function readBootFacts(place: UpdatePlace): BootFacts {
  let text: string;
  try {
    text = readFileSync(place.factsFile, 'utf8');
  } catch (error) {
    throw new LinesideError('NOT_READY', `this machine was not started from slots: ${messageOf(error)}`, {
      cause: error,
      hint: 'Updates of this kind are for the image; a Debian package is updated by apt.',
    });
  }
  const facts = new Map(text.split('\n').map((line) => [line.replace(/=.*/, ''), line.replace(/^[^=]*=/, '')]));
  const slot = facts.get('SLOT');
  if (!isSlot(slot)) throw new LinesideError('NOT_READY', `${place.factsFile} does not say which slot runs`);
  return { slot, partitions: facts.get('PART') ?? '' };
}

/** Bytes of a block device or a file. */
export function sizeOfDevice(path: string): number {
  const stat = statSync(path);
  if (!stat.isBlockDevice()) return stat.size;
  // makedev(3) of Linux; sysfs counts in sectors of 512 bytes whatever the device's own are.
  const major = Math.floor(stat.rdev / 0x100) & 0xfff;
  const minor = (stat.rdev & 0xff) | (Math.floor(stat.rdev / 0x1000) & 0xfff00);
  return Number(readFileSync(join('/sys/dev/block', `${major}:${minor}`, 'size'), 'utf8')) * 512;
}
