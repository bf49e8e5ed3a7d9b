/** Lists by cursor. A page is bounded in items and in bytes. */
import { LinesideError } from '../../shared/base/errors.ts';
import { objectIn } from '../../shared/base/json.ts';

export interface Page<T> {
  readonly items: readonly T[];
  /** undefined: this was the last page. */
  readonly nextCursor: string | undefined;
}

export interface PageRequest {
  /** 1 to 1,000. */
  readonly limit: number;
  readonly cursor: string | undefined;
}

/** A cursor is base64url, or a number. */
export const CURSOR = '^[A-Za-z0-9_-]*$';
/** Enough for a business key of 256 characters in base64url. */
export const MAX_CURSOR_CHARS = 4_096;

const maxPage = 1_000;
/** A thousand records may have 256 KiB each: a page ends early instead of filling the memory. */
const maxPageChars = 4 * 1024 * 1024;

/** `list` names the list, so that the cursor of another list is refused instead of being misread. */
export function cursorAfter(list: string, ...position: readonly (string | number)[]): string {
  return Buffer.from(JSON.stringify([list, ...position])).toString('base64url');
}

/** The position behind which the page begins; `first` gives the types, and is returned without a cursor. Throws INVALID_ARGUMENT. */
export function positionOf<P extends readonly (string | number)[]>(
  list: string,
  page: PageRequest,
  first: readonly [...P],
): readonly [...P] {
  if (!Number.isInteger(page.limit) || page.limit < 1 || page.limit > maxPage) {
    throw new LinesideError('INVALID_ARGUMENT', 'the limit is out of range', {
      reasons: [`limit must be 1 to ${maxPage}`],
    });
  }
  if (page.cursor === undefined) return first;
  const isShort = page.cursor.length <= MAX_CURSOR_CHARS;
  const parts = isShort ? objectIn(Buffer.from(page.cursor, 'base64url').toString()) : undefined;
  const [of, ...position] = Array.isArray(parts) ? parts : [];
  const fits =
    of === list && position.length === first.length && first.every((item, at) => typeof position[at] === typeof item);
  if (!fits) throw noCursor();
  return position as unknown as readonly [...P];
}

export function noCursor(): LinesideError {
  return new LinesideError('INVALID_ARGUMENT', 'the cursor does not belong to this list', {
    reasons: ['cursor must be the nextCursor of a page of the same list'],
  });
}

export interface PageShape<R, T> {
  readonly show: (row: R) => T;
  /** Characters. */
  readonly sizeOf: (row: R) => number;
  readonly cursorOf: (row: R) => string;
}

/** `rows`: one more than the limit if another page follows. */
export function pageOf<R, T>(
  rows: Iterable<R>,
  { limit }: PageRequest,
  { show, sizeOf, cursorOf }: PageShape<R, T>,
): Page<T> {
  const items: T[] = [];
  let chars = 0;
  let last: R | undefined;
  for (const row of rows) {
    chars += sizeOf(row);
    const isFull = items.length === limit || (items.length > 0 && chars > maxPageChars);
    if (last !== undefined && isFull) return { items, nextCursor: cursorOf(last) };
    items.push(show(row));
    last = row;
  }
  return { items, nextCursor: undefined };
}
