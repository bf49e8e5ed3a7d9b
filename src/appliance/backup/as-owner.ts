/**
 * Root at work in a directory of the service: as the user who owns it. A service that was taken over may put a link where
 * root expects a file, and swap a directory between two steps; followed as that user, they lead to nothing that it could
 * not reach by itself.
 */
import { statSync } from 'node:fs';

/** `work` ends before this returns: nothing of it may wait. */
export function asOwnerOf<T>(dir: string, work: () => T): T {
  const { setegid, seteuid, setgroups, getgroups, getegid } = process;
  const owner = statSync(dir, { throwIfNoEntry: false });
  if (process.geteuid?.() !== 0 || owner === undefined || owner.uid === 0) return work();
  const [groups, gid] = [getgroups?.() ?? [], getegid?.() ?? 0];
  try {
    setgroups?.([owner.gid]);
    setegid?.(owner.gid);
    seteuid?.(owner.uid);
    return work();
  } finally {
    seteuid?.(0);
    setegid?.(gid);
    setgroups?.(groups);
  }
}
