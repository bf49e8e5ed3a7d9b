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

/** Label and value, one to a line, labels padded alike. */
export function labelled(rows: readonly (readonly [string, string])[], width: number): string {
  const label = Math.max(...rows.map(([name]) => name.length));
  return rows.map(([name, value]) => `${cut(`${name.padEnd(label)}  ${value}`, width)}\n`).join('');
}
