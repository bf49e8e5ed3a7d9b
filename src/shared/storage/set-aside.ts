/** A database file that cannot be used is put under another name, never deleted; its companions go with it so that it can be opened there. */
import { existsSync, renameSync } from 'node:fs';

/** The database and its companions; the main file last, so that a crash in between leaves nothing that looks new. */
export const companions = ['-wal', '-shm', ''] as const;

/**
 * Returns where the file is now; where there is none (its replacement could not be begun), where the last one is.
 * `suffixes`: the companions alone, where the main file is another database's.
 */
export function setAside(path: string, suffixes: readonly string[] = companions): string {
  const exists = (file: string): boolean => companions.some((suffix) => existsSync(file + suffix));
  let n = 1;
  while (exists(`${path}.damaged-${n}`)) n++;
  if (!suffixes.some((suffix) => existsSync(path + suffix))) return n === 1 ? '' : `${path}.damaged-${n - 1}`;
  const target = `${path}.damaged-${n}`;
  for (const suffix of suffixes) {
    if (existsSync(path + suffix)) renameSync(path + suffix, target + suffix);
  }
  return target;
}
