/**
 * The text of lineside.toml for the browser: what may be a secret is hidden, and comes back when the text does. Secrets do not belong
 * into the file (keys name files that hold them), but one may have been typed there. Hidden are values of keys that lineside does not
 * know, of keys that name files if the value is no usual file name, lines that are no TOML, and comments that look like a secret. Pure.
 */
import { parse } from 'smol-toml';
import { LinesideError } from '../../shared/base/errors.ts';
import { isSecretName, Redactor, shownFile } from '../../shared/base/redactor.ts';
import { keys } from '../../shared/config/config.ts';
import { isTable } from '../../shared/config/parse.ts';
import { nearest } from '../../shared/config/values.ts';

export interface HiddenText {
  readonly text: string;
  /** By the numbers of the marks that stand in their places, from 1. */
  readonly parts: readonly string[];
}

interface Range {
  readonly start: number;
  readonly end: number;
}

const mark = (number: number): string => `<hidden ${number}>`;
const marks = /<hidden (\d{1,6})>/g;

export function hideSecrets(text: string): HiddenText {
  const parts: string[] = [];
  let shown = '';
  let done = 0;
  for (const { start, end } of hiddenRanges(text)) {
    parts.push(text.slice(start, end));
    shown += text.slice(done, start) + mark(parts.length);
    done = end;
  }
  return { text: shown + text.slice(done), parts };
}

/**
 * `edited`: the text that hideSecrets() gave, changed. Throws INVALID_ARGUMENT if a mark has no part, or stands where its part would
 * be shown: a hidden part stays hidden.
 */
export function revealed(edited: string, parts: readonly string[]): string {
  let text = '';
  let done = 0;
  const back: Range[] = [];
  for (const { 0: whole, 1: number, index } of edited.matchAll(marks)) {
    const part = parts[Number(number) - 1];
    if (part === undefined) throw misplaced(edited, index, whole, 'the file has no such hidden part');
    text += edited.slice(done, index);
    back.push({ start: text.length, end: text.length + part.length });
    text += part;
    done = index + whole.length;
  }
  text += edited.slice(done);
  const hidden = hiddenRanges(text);
  const open = back.findIndex(({ start, end }) => !hidden.some((one) => one.start <= start && end <= one.end));
  if (open === -1) return text;
  const found = [...edited.matchAll(marks)][open];
  throw misplaced(
    edited,
    found?.index ?? 0,
    found?.[0] ?? '',
    'a hidden part keeps its place, or is replaced by a new value',
  );
}

function misplaced(text: string, at: number, what: string, why: string): LinesideError {
  const line = text.slice(0, at).split('\n').length;
  return new LinesideError('INVALID_ARGUMENT', `line ${line}: ${what}: ${why}`);
}

// Which parts are hidden. In doubt, a part is.

const privateKey = /-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----[^]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----|$)/g;
const keyWord = String.raw`(?:[\w-]+|"[^"\n]*"|'[^'\n]*')`;
const keyPath = String.raw`${keyWord}(?:[ \t]*\.[ \t]*${keyWord})*`;
const header = new RegExp(String.raw`\[\[?[ \t]*(${keyPath})[ \t]*\]\]?`, 'y');
const assigned = new RegExp(String.raw`(${keyPath})[ \t]*=[ \t]*`, 'y');
/** A key that is commented out, as the example has all of them. */
const assignedInComment = new RegExp(String.raw`#[# \t]*(${keyPath})[ \t]*=[ \t]*`, 'y');

/** In their order, none touching another. */
function hiddenRanges(text: string): Range[] {
  const found: Range[] = [];
  for (const pattern of [privateKey, marks])
    for (const { 0: whole, index } of text.matchAll(pattern)) found.push({ start: index, end: index + whole.length });
  const scan: Scan = {
    text,
    at: 0,
    section: [],
    hide: (start, end) => void (end > start && found.push({ start, end })),
  };
  while (scan.at < text.length) line(scan);
  return joined(found);
}

function joined(found: Range[]): Range[] {
  const out: Range[] = [];
  for (const { start, end } of found.sort((a, b) => a.start - b.start)) {
    const last = out.at(-1);
    if (last !== undefined && start <= last.end)
      out[out.length - 1] = { start: last.start, end: Math.max(end, last.end) };
    else out.push({ start, end });
  }
  return out;
}

interface Scan {
  readonly text: string;
  at: number;
  /** undefined: of a header that cannot be read. */
  section: readonly string[] | undefined;
  readonly hide: (start: number, end: number) => void;
}

/** One line, or the lines of one value. */
function line(scan: Scan): void {
  const { text } = scan;
  scan.at += /^[ \t\r]*/.exec(text.slice(scan.at, scan.at + 4_096))?.[0].length ?? 0;
  const end = endOfLine(text, scan.at);
  const first = text[scan.at];
  if (first === '#') {
    comment(scan, end);
  } else if (first === '[') {
    const table = matchAt(header, text, scan.at);
    scan.section = table === undefined ? undefined : wordsOf(table[1] ?? '');
    rest(scan, scan.at + (table?.[0].length ?? 0), end);
  } else if (scan.at < end) {
    const key = matchAt(assigned, text, scan.at);
    if (key === undefined) rest(scan, scan.at, end);
    else value(scan, wordsOf(key[1] ?? ''), scan.at + key[0].length);
  }
  scan.at = endOfLine(text, scan.at) + 1;
}

function value(scan: Scan, name: readonly string[], from: number): void {
  const { text, section } = scan;
  const to = endOfValue(text, from);
  const path = section === undefined ? undefined : [...section, ...name];
  if (!mayShow(path, text.slice(from, to))) scan.hide(from, to);
  rest(scan, to, endOfLine(text, to));
  scan.at = to;
}

/** Behind a header or a value: nothing, or a comment. */
function rest(scan: Scan, from: number, end: number): void {
  const at = from + (/^[ \t]*/.exec(scan.text.slice(from, end))?.[0].length ?? 0);
  if (scan.text[at] === '#') comment({ ...scan, at }, end);
  else scan.hide(at, trimmedEnd(scan.text, at, end));
}

function comment({ text, at, section, hide }: Scan, end: number): void {
  const key = matchAt(assignedInComment, text, at);
  if (key !== undefined) {
    const from = at + key[0].length;
    const to = trimmedEnd(text, from, end);
    if (section !== undefined && mayShow([...section, ...wordsOf(key[1] ?? '')], text.slice(from, to))) return;
    return hide(from, to);
  }
  const from = at + (/^[# \t]*/.exec(text.slice(at, end))?.[0].length ?? 0);
  const to = trimmedEnd(text, from, end);
  if (looksSecret(text.slice(from, to))) hide(from, to);
}

const redactor = new Redactor();
/** "password of the broker: x" */
const spoken = /(?:passw|passphrase|passcode|secret|token|credential)[^:=]{0,200}[:=]\s*\S/i;
const descriptions: ReadonlySet<string> = new Set(keys.map(({ schema }) => schema.description));

/** Of prose. The comments of the example speak of passwords and tokens, and hold none. */
function looksSecret(prose: string): boolean {
  if (
    descriptions.has(prose) ||
    [...descriptions].some((one) => prose.startsWith(`${one} `) && /^ [([]/.test(prose.slice(one.length)))
  )
    return false;
  const plain = prose.replaceAll(/\bLINESIDE_[A-Z_]+\b/g, 'a variable');
  return spoken.test(plain) || redactor.text(plain) !== plain;
}

const known = new Map(
  keys.flatMap(({ path, schema }) => [path, schema['x-old-path'] ?? path].map((one) => [one, schema])),
);
const sections: ReadonlySet<string> = new Set(
  [...known.keys()].flatMap((path) => path.split('.').map((_, at, all) => all.slice(0, at + 1).join('.'))),
);

/** The longest key has 32. */
const MAX_NAME_CHARS = 64;

/** `written`: as it stands in the file. */
function mayShow(path: readonly string[] | undefined, written: string): boolean {
  if (path === undefined) return false;
  const read = valueIn(written);
  // A list in several lines may have comments.
  if (written.includes('\n') && (read === undefined || looksSecret(written))) return false;
  const schema = known.get(path.join('.'));
  if (schema !== undefined && schema['x-kind'] !== 'file') return redactor.text(written) === written;
  return read !== undefined && isHarmless(path, read);
}

function isHarmless(path: readonly string[], read: unknown): boolean {
  const name = path.join('.');
  if (isTable(read) && sections.has(name))
    return Object.entries(read).every(([one, below]) => isHarmless([...path, one], below));
  const schema = known.get(name);
  if (schema?.['x-kind'] === 'file') return typeof read === 'string' && shownFile(read) === read;
  if (schema !== undefined) return !isTable(read);
  if (path.some(isSecretName)) return false;
  // A key that was mistyped is shown, or it could not be corrected.
  const meant = name.length > MAX_NAME_CHARS ? undefined : known.get(nearest(name, [...known.keys()]) ?? '');
  if (meant !== undefined && meant['x-kind'] !== 'file') {
    const shown = JSON.stringify(read, (_, one: unknown) => (typeof one === 'bigint' ? `${one}` : one));
    return !isTable(read) && redactor.text(shown) === shown;
  }
  const isPlain = (one: unknown): boolean => ['number', 'boolean', 'bigint'].includes(typeof one);
  return Array.isArray(read) ? read.every(isPlain) : isPlain(read);
}

function valueIn(written: string): unknown {
  try {
    return parse(`value = ${written}\n`)['value'];
  } catch {
    return undefined;
  }
}

function wordsOf(path: string): string[] {
  return (path.match(new RegExp(keyWord, 'g')) ?? []).map((word) => word.replace(/^(["'])(.*)\1$/, '$2'));
}

/** Behind the value, in this line or a later one. Of a string or a list that does not end: the end of the text. */
function endOfValue(text: string, from: number): number {
  let depth = 0;
  for (let at = from; at < text.length; at++) {
    const one = text[at] ?? '';
    if (one === '"' || one === "'") at = endOfString(text, at) - 1;
    else if (one === '[' || one === '{') depth++;
    else if (one === ']' || one === '}') depth = Math.max(0, depth - 1);
    else if (one === '#' && depth > 0) at = endOfLine(text, at) - 1;
    else if ((one === '#' || one === '\n') && depth === 0) return trimmedEnd(text, from, at);
  }
  return trimmedEnd(text, from, text.length);
}

/** Of one line: its end, if the string does not end before. */
function endOfString(text: string, from: number): number {
  const quote = text[from] ?? '';
  const triple = quote.repeat(3);
  if (text.startsWith(triple, from)) {
    const pattern = quote === '"' ? /(?:\\[^]|[^\\])*?"{3,5}/y : /[^]*?'{3,5}/y;
    const found = matchAt(pattern, text, from + 3);
    return found === undefined ? text.length : from + 3 + found[0].length;
  }
  const pattern = quote === '"' ? /"(?:\\[^\n]|[^"\\\n])*"?/y : /'[^'\n]*'?/y;
  return from + Math.max(1, matchAt(pattern, text, from)?.[0].length ?? 1);
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | undefined {
  pattern.lastIndex = at;
  return pattern.exec(text) ?? undefined;
}

function endOfLine(text: string, from: number): number {
  const at = text.indexOf('\n', from);
  return at === -1 ? text.length : at;
}

function trimmedEnd(text: string, from: number, to: number): number {
  return from + text.slice(from, to).trimEnd().length;
}
