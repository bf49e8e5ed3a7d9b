/** slot.txt as a file: read, and overwritten in place, so that its sector and its directory entry stay where they are. */
import { closeSync, constants, fsyncSync, openSync, readFileSync, readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { LinesideError, messageOf } from '../../shared/base/errors.ts';
import { dropPages } from '../../shared/base/libc.ts';
import { parseSlots, renderSlots, type SlotState, slotFileBytes } from './slots.ts';

function slotFile(bootDir: string): string {
  return join(bootDir, 'slot.txt');
}

/** Throws NOT_READY where there are no slots here, or the file says none. */
export function readSlots(bootDir: string): SlotState {
  const path = slotFile(bootDir);
  let text: string;
  try {
    text = readFileSync(path, 'latin1');
  } catch (error) {
    throw new LinesideError('NOT_READY', `this machine has no slots: ${messageOf(error)}`, {
      cause: error,
      hint: 'Updates of this kind are for the image; a Debian package is updated by apt.',
    });
  }
  const state = parseSlots(text);
  if (state === undefined) {
    throw new LinesideError('NOT_READY', `${path} does not say which slot is good`, {
      hint: 'The box goes on starting the slot that runs now. Write a new card, or repair the file by its twin on another box.',
    });
  }
  return state;
}

/** On the medium when it returns, and read back from there. The partition must be writable. */
export function writeSlots(bootDir: string, state: SlotState): void {
  const path = slotFile(bootDir);
  const bytes = Buffer.from(renderSlots(state), 'latin1');
  const fd = openSync(path, constants.O_RDWR | constants.O_SYNC);
  try {
    const written = writeSync(fd, bytes, 0, slotFileBytes, 0);
    fsyncSync(fd);
    dropPages(fd);
    const back = Buffer.alloc(slotFileBytes);
    if (written !== slotFileBytes || readSync(fd, back, 0, slotFileBytes, 0) !== slotFileBytes || !back.equals(bytes)) {
      throw new LinesideError('STORAGE_FAILED', `${path} does not hold what was written to it`, {
        hint: 'The card is failing: make a backup and write a new card.',
      });
    }
  } finally {
    closeSync(fd);
  }
}
