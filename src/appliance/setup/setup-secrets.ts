/**
 * The text of setup.toml without its secrets. Each is replaced where it stands by "*" and blanks of the same length: the
 * file is overwritten without moving a byte, so that a plug pulled meanwhile leaves a file of which every byte is the old
 * or the new one, and the FAT file system notices nothing. Pure.
 */
import { parseToml, pathsIn, type TomlPath, valueAt, withString } from '../toml-text.ts';
import { TAKEN } from './setup-keys.ts';

const MARK = `"${TAKEN}"`;
const NOTE = ' # moved onto the box';

/** undefined: there is none in it. Throws if a secret cannot be taken out. */
export function withoutSecrets(text: string): string | undefined {
  const document = parseToml(text);
  const secrets = [...pathsIn(document, [])].filter((path) => isSecret(path) && holdsMore(valueAt(document, path)));
  if (secrets.length === 0) return undefined;
  const wanted = parseToml(text);
  let taken = text;
  for (const path of secrets) {
    const above = valueAt(wanted, path.slice(0, -1)) as Record<string | number, unknown>;
    above[path.at(-1) ?? ''] = TAKEN;
    const before = taken;
    taken = withString(before, path, TAKEN, (start, end) => mark(before, start, end)) ?? before;
  }
  // The parser has the last word on whether the secrets, and nothing else, were taken out.
  if (JSON.stringify(parseToml(taken), plain) !== JSON.stringify(wanted, plain)) {
    throw new RangeError('a secret cannot be taken out of the file: write each as name = "..." in a line of its own');
  }
  return taken;
}

function isSecret([first, second, third, ...more]: TomlPath): boolean {
  if (first === 'secrets') return second !== undefined;
  if (first === 'token') return third === 'token' && more.length === 0;
  return first === 'network' && second === 'wifi' && third === 'psk' && more.length === 0;
}

/** A string that is neither the mark already nor empty. */
function holdsMore(value: unknown): boolean {
  return typeof value === 'string' && value !== '' && value !== TAKEN;
}

/** As many bytes as before. Within a list or a table in one line no comment can be. */
function mark(text: string, start: number, end: number): string {
  const room = new TextEncoder().encode(text.slice(start, end)).length - MARK.length;
  const isLast = /^[ \t]*\r?(\n|$)/.test(text.slice(end));
  return MARK + (isLast && room >= NOTE.length ? NOTE.padEnd(room) : ' '.repeat(room));
}

function plain(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}` : value;
}
