/** Where a list goes on: opaque to those who hand it back. Pure but for the encoding. */
import { LinesideError } from '../../shared/base/errors.ts';
import type { PageRequest } from '../outbox/face.ts';
import { MAX_CURSOR_CHARS } from './face.ts';

const maxPage = 1_000;

/** `list` says which list it is of, so that a cursor of another is refused instead of being misread. */
export function cursorAfter(list: string, ...position: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify([list, ...position])).toString('base64url');
}

/** The position in the form that `shape` gives by example; undefined: the list begins. Throws INVALID_ARGUMENT. */
export function positionOf<P extends readonly (string | number)[]>(
  list: string,
  page: PageRequest,
  shape: P,
): P | undefined {
  if (!Number.isInteger(page.limit) || page.limit < 1 || page.limit > maxPage) {
    throw new LinesideError('INVALID_ARGUMENT', 'the limit is out of range', {
      reasons: [`limit must be 1 to ${maxPage}`],
    });
  }
  if (page.cursor === undefined) return undefined;
  const parts = page.cursor.length > MAX_CURSOR_CHARS ? undefined : parsed(page.cursor);
  const [of, ...position] = Array.isArray(parts) ? parts : [];
  const fits =
    of === list && position.length === shape.length && shape.every((item, at) => typeof position[at] === typeof item);
  if (!fits) {
    throw new LinesideError('INVALID_ARGUMENT', 'the cursor is none of this list', {
      reasons: ['cursor must be the nextCursor of a page of the same list'],
    });
  }
  return position as unknown as P;
}

function parsed(cursor: string): unknown {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString());
  } catch {
    return undefined;
  }
}
