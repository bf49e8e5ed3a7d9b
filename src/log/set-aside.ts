/** A damaged log file is put under another name, never deleted; its companions go with it so that it can be opened there. */
import { existsSync, renameSync } from 'node:fs';

/** The log and its companions; the main file last, so that a crash in between leaves nothing that looks new. */
export const companions = ['-wal', '-shm', ''];

/** Returns where the file is now; where there is none (its replacement could not be begun), where the last one is. */
export function setAside(path: string): string {
  const exists = (file: string): boolean => companions.some((suffix) => existsSync(file + suffix));
  let n = 1;
  while (exists(`${path}.damaged-${n}`)) n++;
  if (!exists(path)) return n === 1 ? '' : `${path}.damaged-${n - 1}`;
  const target = `${path}.damaged-${n}`;
  for (const suffix of companions) {
    if (existsSync(path + suffix)) renameSync(path + suffix, target + suffix);
  }
  return target;
}
