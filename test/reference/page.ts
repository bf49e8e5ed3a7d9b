/** What the pages of the reference are written with. Pure. */

/** A page as it is made from the sources, and what it could not say: things without a description. */
export interface Page {
  readonly text: string;
  readonly holes: readonly string[];
}

export const MADE =
  '<!-- Made from the sources by scripts/reference, and held to them by test/reference: edit those, not this. -->';

/** A row for each thing; a column that is empty in all of them is left out. */
export function table(heads: readonly string[], rows: readonly (readonly string[])[]): string {
  const used = heads.map((_, i) => rows.some((row) => (row[i] ?? '') !== ''));
  const line = (cells: readonly string[]): string => `| ${cells.filter((_, i) => used[i]).join(' | ')} |`;
  const ruled = heads.map(() => '---');
  return [line(heads), line(ruled), ...rows.map((row) => line(row.map(inCell)))].join('\n');
}

/** Text of a source as Markdown takes it: nothing in it is markup. */
export function plain(text: string): string {
  return text.replaceAll(/[<*\\]/g, (sign) => `\\${sign}`);
}

export function code(text: string): string {
  return `\`${text}\``;
}

/** Blocks with an empty line between; empty ones are left out. */
export function blocks(...parts: readonly string[]): string {
  return `${parts.filter((part) => part !== '').join('\n\n')}\n`;
}

function inCell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll(/\s*\n\s*/g, ' ');
}
