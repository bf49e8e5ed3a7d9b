/**
 * slot.txt on the boot partition: which of the two root slots the firmware starts, which one is known to be good, and which
 * one is on trial. The initramfs reads and writes the same 64 bytes; test/appliance/slot-states.json holds the two together.
 * 64 bytes lie in one sector, which a card writes whole or not at all. Pure.
 */

export type Slot = 'a' | 'b';

export interface SlotState {
  /** Started when nothing is on trial, and after a trial that failed. */
  readonly good: Slot;
  readonly trying: Slot | undefined;
  /** Starts that the slot on trial still has; 0 with none on trial. */
  readonly left: number;
  /** Went back from, and nothing was installed since. */
  readonly failed: Slot | undefined;
}

export const slotFileBytes = 64;
/** One start may meet a pulled plug that is not the new slot's fault, and the next one too. */
const triesOfTrial = 3;

/** What the firmware reads stands below this line, and follows from it. */
const form = /^# lineside slot good=([ab]) try=([ab-]) left=([0-9]) *(?:\n|$)/;
/** In place of padding: the firmware takes it for a comment. */
const failedForm = /^.*\n.*\n#failed=([ab]) *(?:\n|$)/;
export function parseSlots(text: string): SlotState | undefined {
  const [, good, trying, left] = form.exec(text) ?? [];
  if (!isSlot(good) || (isSlot(trying) ? trying === good : left !== '0')) return undefined;
  if (isSlot(trying)) return { good, trying, left: Number(left), failed: undefined };
  const [, failed] = failedForm.exec(text) ?? [];
  return { ...settled(good), failed: isSlot(failed) ? failed : undefined };
}

/** The firmware may take blanks behind a value for a part of it: the padding stands on a line of its own. */
export function renderSlots({ good, trying, left, failed }: SlotState): string {
  const text = `# lineside slot good=${good} try=${trying ?? '-'} left=${left}\nos_prefix=${trying ?? good}/\n`;
  return `${`${text}${failed === undefined ? '' : `#failed=${failed}`}`.padEnd(slotFileBytes - 1)}\n`;
}

export function settled(good: Slot): SlotState {
  return { good, trying: undefined, left: 0, failed: undefined };
}

export function onTrial(good: Slot): SlotState {
  return { good, trying: otherSlot(good), left: triesOfTrial, failed: undefined };
}

export function otherSlot(slot: Slot): Slot {
  return slot === 'a' ? 'b' : 'a';
}

export function isSlot(text: string | undefined): text is Slot {
  return text === 'a' || text === 'b';
}
