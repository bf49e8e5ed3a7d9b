/** One page of a list, bounded in items and in bytes. Pure. */

/** A thousand records may have 256 KiB each: a page ends early rather than fill the memory. */
const maxPageChars = 4 * 1024 * 1024;

/** At least one row, where there is one; `more`: there were further ones. `json` is what a row's size is of. */
export function takePage<R>(
  rows: Iterable<R>,
  limit: number,
  json: (row: R) => string | null,
): { readonly taken: readonly R[]; readonly more: boolean } {
  const taken: R[] = [];
  let chars = 0;
  for (const row of rows) {
    chars += json(row)?.length ?? 0;
    if (taken.length === limit || (taken.length > 0 && chars > maxPageChars)) return { taken, more: true };
    taken.push(row);
  }
  return { taken, more: false };
}
