/**
 * The text of setup.toml without its secrets. Each is replaced where it stands by "*" and blanks of the same length: the
 * file is overwritten without moving a byte, so that a plug pulled meanwhile leaves a file of which every byte is the old
 * or the new one, and the FAT file system notices nothing. Pure.
 */
import { parse } from 'smol-toml';
import { TAKEN } from './setup-keys.ts';
import { type Place, tomlPlaces } from './toml-positions.ts';

const MARK = `"${TAKEN}"`;
const NOTE = ' # moved onto the box';

/** undefined: there is none in it. Throws where a secret cannot be taken out. */
export function withoutSecrets(text: string): string | undefined {
  let taken = text;
  const bare = text.replace(/^\uFEFF/, '');
  const document = parse(bare);
  const found = tomlPlaces(text).filter((place) => isSecret(place) && holdsMore(document, place.path));
  if (found.length === 0) return undefined;
  // From the last one on, so that the places of those before it stay what they are.
  for (const place of found.toReversed()) {
    taken = taken.slice(0, place.start) + substitute(taken, place) + taken.slice(place.end);
  }
  demandSame(parse(taken.replace(/^\uFEFF/, '')), expected(document, found));
  return taken;
}

function isSecret({ path }: Place): boolean {
  const [first, second, third] = path;
  if (first === 'secrets') return path.length > 1;
  if (first === 'token') return path.length === 3 && third === 'token';
  return path.length === 3 && first === 'network' && second === 'wifi' && third === 'psk';
}

/** Whether it is a text that is not the mark already, nor empty. */
function holdsMore(document: unknown, path: Place['path']): boolean {
  const value = valueAt(document, path);
  return typeof value === 'string' && value !== '' && value !== TAKEN;
}

/** As many bytes as before. Within a list or a table in one line no comment can be. */
function substitute(text: string, { start, end }: Place): string {
  const bytes = new TextEncoder().encode(text.slice(start, end)).length;
  const room = bytes - MARK.length;
  const isLast = /^[ \t]*\r?(\n|$)/.test(text.slice(end));
  return MARK + (isLast && room >= NOTE.length ? NOTE.padEnd(room) : ' '.repeat(room));
}

function valueAt(document: unknown, path: Place['path']): unknown {
  let value = document;
  for (const key of path) value = (value as Record<string | number, unknown> | undefined)?.[key];
  return value;
}

function expected(document: unknown, found: readonly Place[]): unknown {
  const copy = structuredClone(document);
  for (const { path } of found) {
    const above = valueAt(copy, path.slice(0, -1)) as Record<string | number, unknown>;
    above[path.at(-1) ?? ''] = TAKEN;
  }
  return copy;
}

/** The parser has the last word on whether the secrets, and nothing else, were taken out. */
function demandSame(taken: unknown, wanted: unknown): void {
  if (JSON.stringify(taken, plain) !== JSON.stringify(wanted, plain)) {
    throw new RangeError('a secret cannot be taken out of the file: write each as name = "..." in a line of its own');
  }
}

function plain(_key: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}` : value;
}
