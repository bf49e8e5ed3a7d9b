/** The files of a backup into the directories that stand beside what they are to replace. */
import { createHash } from 'node:crypto';
import {
  chmodSync,
  chownSync,
  closeSync,
  fstatSync,
  fsyncSync,
  mkdirSync,
  openSync,
  rmSync,
  statfsSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { FILE_MODE } from '../shared/auth/tokens.ts';
import { LinesideError } from '../shared/base/errors.ts';
import { asOwnerOf } from './as-owner.ts';
import { restoreDirName, type Verified } from './backup-archive.ts';
import { Names } from './backup-etc.ts';
import { etc, SERVICE_GROUP } from './places.ts';
import type { TarEntry } from './tar.ts';
import { Cursor, tarEntries, writeWhole } from './tar-file.ts';

/** A directory of the service that is not there yet; systemd makes its own mode of it. */
const dirMode = 0o700;
const slackBytes = 16 * 1024 * 1024;

/** What an earlier try left is removed; it had no journal, so nothing of it is in use. */
export function beginIn(dir: string, entries: readonly TarEntry[]): void {
  mkdirSync(dir, { recursive: true, mode: dirMode });
  const work = join(dir, restoreDirName);
  asOwnerOf(dir, () => rmSync(work, { recursive: true, force: true }));
  const needed = entries.reduce((all, { bytes }) => all + bytes, slackBytes);
  const { bavail, bsize } = statfsSync(dir);
  if (bavail * bsize < needed) {
    throw new LinesideError('STORAGE_FULL', `${dir} has ${bavail * bsize} bytes free, the restore needs ${needed}`, {
      hint: 'What is there now is kept until the end. Where it is not wanted: lineside factory-reset, then restore.',
    });
  }
  asOwnerOf(dir, () => {
    // Not recursive: what the service's user may have put there is not followed.
    mkdirSync(work, { mode: 0o700 });
    mkdirSync(join(work, 'old'), { mode: 0o700 });
    mkdirSync(join(work, 'new'), { mode: 0o700 });
  });
}

/** The wanted files; their hashes again, since a medium may read differently the second time. Throws MALFORMED. */
export function copyOut(
  fd: number,
  { list }: Verified,
  wanted: (entry: TarEntry) => boolean,
  target: (entry: TarEntry) => string,
): void {
  const names = new Names();
  const hashes = new Map(list.files.map(({ path, sha256 }) => [path, sha256]));
  for (const { entry, content } of tarEntries(new Cursor(fd, 0, fstatSync(fd).size))) {
    const hash = hashes.get(entry.path);
    if (hash === undefined || !wanted(entry)) continue;
    const path = target(entry);
    if (entry.isDirectory) mkdirSync(path);
    else writeFile(path, content, hash);
    // As root only: other users cannot give files away. What belongs to the service's users is written as they.
    if (process.geteuid?.() === 0 && isEtc(entry)) chownSync(path, 0, groupOf(entry, names));
    chmodSync(path, modeOf(entry));
  }
}

export function isEtc({ path }: TarEntry): boolean {
  return path.startsWith('etc/');
}

const tokensFile = `etc/${basename(etc.tokens)}`;
const privateDirs = ['etc/ca', 'etc/secrets'];

/** The group is kept if it is one of the service's: the archive could name any. Root owns all of /etc/lineside. */
function groupOf({ path, group }: TarEntry, names: Names): number {
  const wanted = path === tokensFile ? SERVICE_GROUP : group;
  return serviceGroups.includes(wanted) ? names.groupId(wanted) : 0;
}

const serviceGroups = [SERVICE_GROUP, 'lineside-hub'];

/** Never setuid, executable, or writable for other users; secrets are for root alone, whatever the archive says. */
function modeOf(entry: TarEntry): number {
  const { path, isDirectory, mode } = entry;
  const isPrivate = privateDirs.some((dir) => `${path}/`.startsWith(`${dir}/`));
  if (isDirectory) return isPrivate ? 0o700 : (mode & 0o755) | 0o700;
  if (isPrivate || !isEtc(entry)) return 0o600;
  return path === tokensFile ? FILE_MODE : (mode & 0o644) | 0o600;
}

function writeFile(path: string, content: Iterable<Buffer>, sha256: string): void {
  const hash = createHash('sha256');
  const fd = openSync(path, 'wx', 0o600);
  try {
    for (const piece of content) {
      hash.update(piece);
      writeWhole(fd, piece);
    }
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
  if (hash.digest('hex') === sha256) return;
  throw new LinesideError('MALFORMED', 'the backup was read differently than before: nothing was replaced', {
    hint: 'The medium that it lies on is failing: copy it elsewhere.',
  });
}
