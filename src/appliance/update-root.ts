/** The root part of a bundle onto a slot's partition, and read back from the medium. */
import { createHash } from 'node:crypto';
import { closeSync, constants, fsyncSync, openSync } from 'node:fs';
import { LinesideError, messageOf, systemCode } from '../shared/base/errors.ts';
import { dropPages } from '../shared/base/libc.ts';
import { type Part, readDifferently } from './bundle.ts';
import { Cursor, writeWhole } from './tar-file.ts';

/** Written and not yet synced: what the kernel holds in memory of it, and how far the shown progress may be ahead. */
const syncEveryBytes = 16 * 1024 * 1024;

/**
 * O_EXCL on a block device: refused where it is mounted, or open like this elsewhere (two updates at once). The caller keeps
 * it open until the update is through.
 */
export function openRoot(device: string): number {
  try {
    return openSync(device, constants.O_RDWR | constants.O_EXCL);
  } catch (error) {
    const isBusy = systemCode(error) === 'EBUSY';
    throw new LinesideError(isBusy ? 'CONFLICT' : 'STORAGE_FAILED', `${device} cannot be opened: ${messageOf(error)}`, {
      cause: error,
      hint: isBusy ? 'It is mounted, or another update is at work on it.' : 'Are you root?',
    });
  }
}

export function closeRoot(fd: number): void {
  closeSync(fd);
}

/**
 * The first piece holds what makes it a file system: it is zeros until all else is on the medium, so that a root that was cut
 * short is none. Throws MALFORMED where the content is not what was signed.
 */
export function writeRoot(fd: number, part: Part, content: Cursor, onPiece: (bytes: number) => void): void {
  const hash = createHash('sha256');
  let first: Buffer | undefined;
  let at = 0;
  let unsynced = 0;
  for (const piece of content.pieces(part.bytes)) {
    hash.update(piece);
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
  if (hash.digest('hex') !== part.sha256) throw readDifferently();
  fsyncSync(fd);
  if (first !== undefined) writeWhole(fd, first, 0);
  fsyncSync(fd);
}

/** From the medium: the pages that the kernel keeps of it are dropped first. Throws STORAGE_FAILED. */
export function compareRoot(fd: number, part: Part, onPiece: (bytes: number) => void): void {
  dropPages(fd);
  const hash = createHash('sha256');
  for (const piece of new Cursor(fd, 0, part.bytes).pieces(part.bytes)) {
    hash.update(piece);
    onPiece(piece.length);
  }
  if (hash.digest('hex') === part.sha256) return;
  throw new LinesideError(
    'STORAGE_FAILED',
    'the partition does not hold what was written to it: nothing was switched',
    {
      hint: 'The card is failing: make a backup and write a new card.',
    },
  );
}
