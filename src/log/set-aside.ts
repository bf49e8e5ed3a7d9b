/** A damaged log file is put under another name, never deleted; its companions go with it so that it can be opened there. */
import { existsSync, renameSync } from 'node:fs';

/** The log and its companions; the main file last, so that a crash in between leaves nothing that looks new. */
const companions = ['-wal', '-shm', ''];

/** Returns where the file is now. */
export function setAside(path: string): string {
  let n = 1;
  while (companions.some((suffix) => existsSync(`${path}.damaged-${n}${suffix}`))) n++;
  const target = `${path}.damaged-${n}`;
  for (const suffix of companions) {
    if (existsSync(path + suffix)) renameSync(path + suffix, target + suffix);
  }
  return target;
}
