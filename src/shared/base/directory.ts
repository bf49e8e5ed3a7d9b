/** Making the service's own directories, with an error that names the key of the configuration. */
import { mkdir } from 'node:fs/promises';
import { LinesideError, messageOf } from './errors.ts';

/** STORAGE_FAILED, and why. */
export async function makeDirectory(key: string, dir: string): Promise<void> {
  try {
    await mkdir(dir, { recursive: true });
  } catch (failed) {
    // Node says ENOENT of a read-only file system when it makes the directories above as well; a plain mkdir does not.
    const error: unknown = await mkdir(dir).then(
      () => undefined,
      (plain: unknown) => plain,
    );
    if (error === undefined) return;
    throw new LinesideError('STORAGE_FAILED', `${key}: cannot make the directory ${dir}: ${messageOf(error)}`, {
      cause: failed,
      hint: 'Is its disk mounted, and may it be written?',
    });
  }
}
