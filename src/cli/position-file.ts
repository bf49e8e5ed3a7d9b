/** Where a reader of the log stands, kept in a small file between runs (`log --resume FILE`). */
import { readFile, rename, writeFile } from 'node:fs/promises';
import { systemCode } from '../shared/base/errors.ts';
import { CliFailure, exitStatus } from './failure.ts';
import { exact, parseUint64 } from './numbers.ts';
import type { Position } from './reader.ts';
import { fileFailure } from './secrets.ts';

/** undefined: no such file yet. */
export async function loadPosition(path: string): Promise<Position | undefined> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined;
    throw fileFailure('read', path, error);
  }
  return parsePosition(text, path);
}

export function parsePosition(text: string, path: string): Position {
  try {
    const value: unknown = JSON.parse(text);
    if (
      typeof value === 'object' &&
      value !== null &&
      'afterId' in value &&
      'logId' in value &&
      typeof value.logId === 'string'
    ) {
      return { afterId: parseUint64(String(value.afterId)), logId: value.logId };
    }
  } catch {
    // Said below, as for JSON of another shape.
  }
  const next = 'Name another file, or remove it to begin again.';
  throw new CliFailure({
    status: exitStatus.refused,
    code: 'BAD_POSITION',
    what: `cannot use ${path}`,
    why: 'it holds no position in a log',
    next,
  });
}

/** In one step: a run that is killed leaves the place of before or after, and never half of one. */
export async function savePosition(path: string, { afterId, logId }: Position): Promise<void> {
  const temporary = `${path}.new`;
  try {
    await writeFile(temporary, `${JSON.stringify({ afterId: exact(afterId), logId })}\n`);
    await rename(temporary, path);
  } catch (error) {
    throw fileFailure('write', path, error);
  }
}
