/** The file of a support bundle: complete and for its owner alone, or not created. */
import { existsSync, linkSync, lstatSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { syncPath, writeSynced } from '../../appliance/disk.ts';
import { LinesideError, systemCode } from '../../shared/base/errors.ts';
import { instantOfMs } from '../../shared/base/instant.ts';

/** The doctor's own limit, the journal's, and time to write on a slow card. */
export const bundleLimitMs = 120_000;

export interface BundleTarget {
  readonly output: string;
  readonly temporary: string;
  readonly force: boolean;
}

export interface BundleReport {
  readonly output: string;
  readonly bytes: number;
  readonly files: readonly { readonly name: string; readonly bytes: number }[];
  readonly leftOut: readonly { readonly what: string; readonly why: string }[];
}

export function targetOf(named: string | undefined, force: boolean, nowMs: number): BundleTarget {
  const time = instantOfMs(nowMs).slice(0, 19).replaceAll(/[-:]/g, '').replace('T', '-');
  const output = resolve(named ?? `lineside-support-${time}Z.tar.gz`);
  return { output, temporary: join(dirname(output), `.lineside-support-${process.pid}.part`), force };
}

/** Before the collection, which takes up to two minutes. */
export function checkTarget({ output, force }: BundleTarget): void {
  const there = lstatSync(output, { throwIfNoEntry: false });
  if (there !== undefined && !there.isFile())
    throw new LinesideError('CONFLICT', `${output} is there, and is no file`, { hint: 'Take another name.' });
  if (there !== undefined && !force) throw taken(output);
  const directory = statSync(dirname(output), { throwIfNoEntry: false });
  if (directory?.isDirectory() !== true)
    throw new LinesideError('CONFLICT', `there is no directory ${dirname(output)}`, {
      hint: 'Make it, or name another place by --output.',
    });
}

function taken(output: string): LinesideError {
  return new LinesideError('CONFLICT', `${output} is there already`, {
    hint: 'Take another name, or --force to replace it.',
  });
}

/** Leaves no partial and no temporary file. */
export function writeBundle({ output, temporary, force }: BundleTarget, content: Uint8Array): void {
  try {
    writeSynced(temporary, [content], 'wx');
    put(temporary, output, force);
    syncPath(dirname(output));
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error instanceof LinesideError ? error : unwritten(output, systemCode(error));
  }
}

/** A link fails if the name exists by now; file systems of USB sticks have no links. */
function put(temporary: string, output: string, force: boolean): void {
  if (force) return renameSync(temporary, output);
  try {
    linkSync(temporary, output);
    rmSync(temporary);
  } catch (error) {
    if (systemCode(error) === 'EEXIST' || existsSync(output)) throw taken(output);
    renameSync(temporary, output);
  }
}

function unwritten(output: string, code: string): LinesideError {
  const words: Readonly<Record<string, string>> = {
    ENOSPC: 'the disk is full',
    EDQUOT: 'the disk is full (quota)',
    EROFS: 'it is mounted read-only',
    EACCES: 'this user may not write there',
    EPERM: 'this user may not write there',
  };
  const kind = code === 'ENOSPC' ? 'STORAGE_FULL' : 'STORAGE_FAILED';
  return new LinesideError(kind, `${output} cannot be written: ${words[code] ?? code}`, {
    hint: 'Name another place by --output, such as a stick or /tmp.',
  });
}

export function describeBundle({ output, bytes, files, leftOut }: BundleReport): string {
  const left = leftOut.map(({ what, why }) => `  left out: ${what} (${why})\n`).join('');
  return `${output}: ${Math.ceil(bytes / 1024)} KiB, ${files.length} files\n${left}Look through it before you send it: tar xzf ${output}\n`;
}
