/** Lists of the hub: page after page, a table for people, an object a line for scripts. */
import { exitStatus } from '../failure.ts';
import { type JsonObject, jsonLine } from '../output/json.ts';
import { table } from '../output/table.ts';
import type { AnyCall } from '../shell.ts';

interface Listing {
  readonly heading: readonly string[];
  /** The cells of an item, safe on a terminal. */
  readonly row: (item: JsonObject) => readonly string[];
  /** What to say when there is nothing. */
  readonly none: string;
}

/** Writes each page as it comes. */
export async function showList(
  call: AnyCall<object>,
  pages: AsyncIterable<readonly JsonObject[]>,
  { heading, row, none }: Listing,
): Promise<number> {
  let shown = 0;
  for await (const items of pages) {
    // Read also where it is not shown: a script is not handed what is none of lineside's.
    const rows = items.map(row);
    if (call.json) await call.out.write(items.map((item) => jsonLine(item)).join(''));
    else if (rows.length > 0) await call.out.write(pageText(heading, rows, call.out.width, shown === 0));
    shown += items.length;
  }
  if (shown === 0 && !call.json) await call.out.write(`${none}\n`);
  return exitStatus.ok;
}

function pageText(
  heading: readonly string[],
  rows: readonly (readonly string[])[],
  width: number,
  first: boolean,
): string {
  const text = table(heading, rows, width);
  return first ? text : text.slice(text.indexOf('\n') + 1);
}
