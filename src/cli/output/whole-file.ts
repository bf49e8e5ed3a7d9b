import { randomBytes } from 'node:crypto';
import { type FileHandle, open, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { systemCode } from '../../shared/base/errors.ts';
import { CliFailure } from '../failure.ts';
import { fileFailure } from '../input.ts';

/** A file appears under its name only when it is complete; a device or a pipe is written as it is. */
export async function writeWhole(path: string, parts: AsyncIterable<string | Uint8Array>): Promise<void> {
  let temporary: string | undefined;
  let file: FileHandle | undefined;
  try {
    const target = await realpath(path).catch((error: unknown) => {
      if (systemCode(error) === 'ENOENT') return path;
      throw error;
    });
    const info = await stat(target).catch(() => undefined);
    if (info?.isFile() ?? true)
      temporary = join(dirname(target), `.${basename(target)}.${randomBytes(4).toString('hex')}.part`);
    file = await open(temporary ?? target, temporary === undefined ? 'w' : 'wx');
    // appendFile writes all of it; a plain write may stop short.
    for await (const part of parts) await file.appendFile(part);
    if (temporary === undefined) return;
    await file.sync();
    await rename(temporary, target);
    temporary = undefined;
  } catch (error) {
    throw error instanceof CliFailure || systemCode(error) === '' ? error : fileFailure('write', path, error);
  } finally {
    await file?.close();
    if (temporary !== undefined) await rm(temporary, { force: true });
  }
}

/** Before work that takes its time: the file may appear meanwhile all the same. */
export async function refuseExisting(path: string): Promise<void> {
  const info = await stat(path).catch(() => undefined);
  if (info?.isFile() !== true) return;
  const details = { what: `cannot write ${path}`, next: 'Take another name, or --force to replace it.' };
  throw new CliFailure('refused', 'EXISTS', 'it exists already', details);
}
