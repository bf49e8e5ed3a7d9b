/** Writes device.id into a configuration file's text, all else as it was. Pure. */

const header = /^\s*\[\s*device\s*\]\s*(#.*)?$/;
const anyHeader = /^\s*\[/;
const idLine = /^\s*id\s*=/;
const dottedLine = /^\s*device\s*\.\s*id\s*=/;

/** In the table [device] where there is one; a line that gives another id is replaced. */
export function pinDeviceId(text: string, id: string): string {
  const value = JSON.stringify(id);
  const lines = text.split('\n');
  const firstTable = lines.findIndex((line) => anyHeader.test(line));
  const dotted = lines.findIndex((line, at) => dottedLine.test(line) && (firstTable === -1 || at < firstTable));
  if (dotted !== -1) return lines.with(dotted, `device.id = ${value}`).join('\n');
  const table = lines.findIndex((line) => header.test(line));
  if (table === -1) return `${text}${text === '' || text.endsWith('\n') ? '' : '\n'}\n[device]\nid = ${value}\n`;
  const next = lines.findIndex((line, at) => at > table && anyHeader.test(line));
  const own = lines.findIndex((line, at) => at > table && (next === -1 || at < next) && idLine.test(line));
  if (own !== -1) return lines.with(own, `id = ${value}`).join('\n');
  return lines.toSpliced(table + 1, 0, `id = ${value}`).join('\n');
}
