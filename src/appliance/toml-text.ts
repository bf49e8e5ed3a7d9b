/**
 * Places in the text of a TOML document, which the parser does not report: the line of each value, for faults, and
 * the string of one value, to replace it alone. The parser itself decides, by what it makes of a changed text, so that
 * nothing here reads TOML's grammar a second time. Pure.
 */
import { parse } from 'smol-toml';

/** Keys and indices from the root: ["token", 0, "name"]. */
export type TomlPath = readonly (string | number)[];
type Table = Readonly<Record<string, unknown>>;

/** Editors on Windows begin a file with a byte order mark. */
export function parseToml(text: string): Table {
  return parse(text.replace(/^\uFEFF/, ''));
}

/** "token[0].name" */
function writtenPath(path: TomlPath): string {
  return path.map((part, i) => (typeof part === 'number' ? `[${part}]` : i === 0 ? part : `.${part}`)).join('');
}

/** The text before each line is parsed: 100 ms for 250 lines, 2 s for so many. A card's file has some dozens. */
const maxLines = 1_000;

/** The first line (from 1) of each value and table, by its written path: the line after which the parser knows it. */
export function linesOf(text: string): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  let upTo = '';
  let first = 1;
  text.split('\n').forEach((line, index) => {
    if (index >= maxLines) return;
    upTo += `${line}\n`;
    const isComplete = first === index + 1;
    // A list in several lines needs only its bracket; a string in several lines is unknown until its end.
    const table = isComplete && /^\s*(#|$)/.test(line) ? {} : (parsed(upTo) ?? parsed(`${upTo}]`));
    if (table === undefined) return;
    for (const path of pathsIn(table, [])) if (!found.has(writtenPath(path))) found.set(writtenPath(path), first);
    first = index + 2;
  });
  return found;
}

function parsed(text: string): Table | undefined {
  try {
    return parseToml(text);
  } catch {
    return undefined;
  }
}

/** Of every value and table, an outer one before those in it. */
export function* pathsIn(value: unknown, path: TomlPath): Generator<TomlPath, void, void> {
  // Dates of TOML are objects too, but have no keys.
  if (typeof value !== 'object' || value === null) return;
  for (const [key, below] of Object.entries(value)) {
    const own = [...path, Array.isArray(value) ? Number(key) : key];
    yield own;
    yield* pathsIn(below, own);
  }
}

export function valueAt(document: unknown, path: TomlPath): unknown {
  let value = document;
  for (const key of path) value = (value as Record<string | number, unknown> | undefined)?.[key];
  return value;
}

/** Comments, so that a quote in one begins nothing, and strings of all four kinds. */
const tokens = /#[^\n]*|"""(?:\\[\s\S]|[^\\])*?"{3,5}|'''[\s\S]*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*'/g;

/**
 * The text with the string at `path` replaced by another one; undefined if no string stands there. `written`: how `value`
 * is written in place of the text from start to end.
 */
export function withString(
  text: string,
  path: TomlPath,
  value: string,
  written: (start: number, end: number) => string,
): string | undefined {
  const before = valueAt(parseToml(text), path);
  if (typeof before !== 'string') return undefined;
  for (const { 0: token, index } of text.matchAll(tokens)) {
    // Another value cannot be the one: the whole text is parsed for the others alone.
    if (token.startsWith('#') || parsed(`value = ${token}`)?.['value'] !== before) continue;
    const end = index + token.length;
    const changed = text.slice(0, index) + written(index, end) + text.slice(end);
    if (valueAt(parsed(changed), path) === value) return changed;
  }
  return undefined;
}

const deviceHeader = /^[ \t]*\[[ \t]*device[ \t]*\][^\n]*$/m;

/** The text of lineside.toml with this device.id: in place of another one, below [device], or at the end. */
export function withDeviceId(text: string, id: string): string {
  const written = JSON.stringify(id);
  const replaced = withString(text, ['device', 'id'], id, () => written);
  if (replaced !== undefined) return replaced;
  if (deviceHeader.test(text)) return text.replace(deviceHeader, (header) => `${header}\nid = ${written}`);
  return `${text}${text === '' || text.endsWith('\n') ? '' : '\n'}\n[device]\nid = ${written}\n`;
}
