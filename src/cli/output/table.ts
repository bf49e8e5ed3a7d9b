/** Columns for people. Pure. */

/** Rows under a heading, columns as wide as needed; the last one is cut to the width (0: unlimited). */
export function table(heading: readonly string[], rows: readonly (readonly string[])[], width: number): string {
  const all = [heading, ...rows];
  const widths = heading.map((_, column) => Math.max(...all.map((row) => (row[column] ?? '').length)));
  return all.map((row) => `${cut(tableRow(row, widths), width)}\n`).join('');
}

function tableRow(row: readonly string[], widths: readonly number[]): string {
  return row
    .map((cell, column) => cell.padEnd(widths[column] ?? 0))
    .join('  ')
    .trimEnd();
}

/** A line no longer than the width (0: any), with an ellipsis where it was cut. */
export function cut(line: string, width: number): string {
  return width > 0 && line.length > width ? `${line.slice(0, Math.max(0, width - 1))}…` : line;
}

export type Row = readonly [label: string, value: string];

/** Label and value, one to a line, labels padded alike. */
export function labelled(rows: readonly Row[], width: number): string {
  const label = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `${cut(`${name.padEnd(label)}  ${value}`, width)}\n`).join('');
}

/** The same with long values on several lines, broken between words: where the end of a line matters. */
export function labelledWrapped(rows: readonly Row[], width: number): string {
  const label = Math.max(...rows.map(([name]) => name.length));
  const room = width === 0 ? Number.POSITIVE_INFINITY : Math.max(leastWrap, width - label - 2);
  const lines = rows.flatMap(([name, value]) => wrap(value, room).map((line, at) => [at === 0 ? name : '', line]));
  return lines.map(([name = '', line]) => `${`${name.padEnd(label)}  ${line}`.trimEnd()}\n`).join('');
}

/** Columns below which wrapping makes nothing easier to read. */
const leastWrap = 20;

function wrap(text: string, room: number): string[] {
  const lines: string[] = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) ?? '';
    const longer = line === '' ? word : `${line} ${word}`;
    if (longer.length <= room) lines[lines.length - 1] = longer;
    else if (line === '') lines[0] = word;
    else lines.push(word);
  }
  return lines;
}
