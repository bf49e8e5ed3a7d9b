/**
 * JSON: read exactly, and compared. Pure.
 *
 * Read exactly or not at all: JSON.parse quietly rounds numbers, keeps the last of two equal names and takes any nesting; what is
 * stored and sent on must be what was written, so here those are faults.
 *
 * V8 also reads some names with escapes as others: it compares them, as they are written, with the name that an earlier object had
 * in this place. After {"z":1,"\\":2} has been read, {"z":1,"\"":2} has the name \ (V8 13.6.233, Node.js 24.21).
 */
import { messageOf } from './errors.ts';

interface JsonFault {
  /** Where, as a JSON pointer (RFC 6901); '' is the whole document, also where the text is no JSON at all. */
  readonly pointer: string;
  readonly message: string;
}

export type ExactJson =
  | { readonly value: unknown; readonly fault?: never }
  | { readonly fault: JsonFault; readonly value?: never };

/** Objects and lists inside each other: far beyond any record, far below what makes readers recurse to death. */
export const MAX_JSON_DEPTH = 64;

/** Every decimal number of so many significant digits survives the way through a double. */
const SAFE_DIGITS = 15;

/** The value of the text, or its first fault. Linear in the text's length. */
export function parseExactJson(text: string): ExactJson {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return { fault: { pointer: '', message: `is not JSON: ${messageOf(error)}` } };
  }
  const fault = new Scan(text, value).run();
  return fault === undefined ? { value } : { fault };
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

/** Bytes as text; undefined: they are not UTF-8. A byte order mark at the beginning is dropped. */
export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Whether a double keeps this JSON number: the shortest text of the double says the same number. */
export function isExactNumber(written: string): boolean {
  // No exponent, few digits: nothing to lose. By far the most are such.
  if (written.length <= SAFE_DIGITS && !/[eE]/.test(written)) return true;
  const number = Number(written);
  if (!Number.isFinite(number)) return false;
  const [asked, kept] = [decimal(written), decimal(String(number))];
  return asked.digits === kept.digits && (asked.digits === '' || asked.exponent === kept.exponent);
}

/** Sign and zeros that say nothing aside: digits x 10^exponent. '' is zero. */
function decimal(written: string): { readonly digits: string; readonly exponent: number } {
  const [, whole = '', fraction = '', exponent = '0'] = /^-?(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(written) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  let end = digits.length;
  while (end > 0 && digits.charCodeAt(end - 1) === ZERO) end -= 1;
  return { digits: digits.slice(0, end), exponent: Number(exponent) - fraction.length + (digits.length - end) };
}

const ZERO = 0x30;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;

interface Level {
  /** The object or list that JSON.parse has read. */
  readonly read: object;
  /** The names so far; undefined in a list. */
  readonly names: Set<string> | undefined;
  /** The member being read: its name or its place. */
  at: string | number;
  /** In an object: whether a string now would be a name. */
  expectsName: boolean;
}

/** One pass over a text that JSON.parse has taken: whatever a token begins with says what it is. */
class Scan {
  readonly #text: string;
  readonly #value: unknown;
  readonly #levels: Level[] = [];
  #position = 0;

  constructor(text: string, value: unknown) {
    this.#text = text;
    this.#value = value;
  }

  run(): JsonFault | undefined {
    while (this.#position < this.#text.length) {
      const message = this.#token(this.#text.charAt(this.#position));
      if (message !== undefined) return { pointer: this.#pointer(), message };
    }
    return undefined;
  }

  #token(first: string): string | undefined {
    const level = this.#levels.at(-1);
    switch (first) {
      case '"':
        return this.#string(level);
      case '{':
      case '[':
        return this.#open(first === '{');
      case '}':
      case ']':
        this.#levels.pop();
        break;
      case ',':
        if (level?.names !== undefined) level.expectsName = true;
        else if (typeof level?.at === 'number') level.at += 1;
        break;
      default:
        if (first === '-' || (first >= '0' && first <= '9')) return this.#number();
    }
    this.#position += 1;
    return undefined;
  }

  #open(isObject: boolean): string | undefined {
    if (this.#levels.length === MAX_JSON_DEPTH) return `is nested more than ${MAX_JSON_DEPTH} deep`;
    const level = this.#levels.at(-1);
    const read = (level === undefined ? this.#value : Reflect.get(level.read, level.at)) as object;
    this.#levels.push(
      isObject
        ? { read, names: new Set(), at: '', expectsName: true }
        : { read, names: undefined, at: 0, expectsName: false },
    );
    this.#position += 1;
    return undefined;
  }

  #number(): string | undefined {
    const start = this.#position;
    while (NUMBER_PART.has(this.#text.charCodeAt(this.#position))) this.#position += 1;
    const written = this.#text.slice(start, this.#position);
    if (isExactNumber(written)) return undefined;
    const shown = written.length <= 40 ? written : `${written.slice(0, 40)}...`;
    return `the number ${shown} cannot be kept exactly: write it as a string`;
  }

  #string(level: Level | undefined): string | undefined {
    const start = this.#position;
    const escaped = this.#skipString();
    if (level?.names === undefined || !level.expectsName) {
      return escaped && !this.#decoded(start).isWellFormed()
        ? 'has half of a surrogate pair, which is no character'
        : undefined;
    }
    const name = escaped ? this.#decoded(start) : this.#text.slice(start + 1, this.#position - 1);
    level.expectsName = false;
    const twice = level.names.has(name);
    level.names.add(name);
    level.at = name;
    if (twice) return 'is there twice in its object';
    if (name === '__proto__') return 'is a name that is not allowed';
    if (!Object.hasOwn(level.read, name)) return 'has a name that this version of Node.js reads as another';
    return name.isWellFormed() ? undefined : 'has half of a surrogate pair in its name, which is no character';
  }

  /** To behind the closing quote; true: it has escapes. */
  #skipString(): boolean {
    let escaped = false;
    for (let i = this.#position + 1; ; i += 1) {
      const code = this.#text.charCodeAt(i);
      if (code === QUOTE) {
        this.#position = i + 1;
        return escaped;
      }
      if (code === BACKSLASH) {
        escaped = true;
        i += 1;
      }
    }
  }

  #decoded(start: number): string {
    return String(JSON.parse(this.#text.slice(start, this.#position)));
  }

  #pointer(): string {
    return this.#levels.map(({ at }) => `/${String(at).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('');
  }
}

/** Digits, sign, point and exponent. */
const NUMBER_PART: ReadonlySet<number> = new Set([...'0123456789+-.eE'].map((character) => character.charCodeAt(0)));

/** The object in a text, whose fields may have any type; undefined: there is no object, or list, in it. */
export function objectIn(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : undefined;
  } catch {
    return undefined;
  }
}

/** Equal as JSON: the order of an object's fields does not count. Recursive: for values whose nesting is bounded. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true;
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
  if (Array.isArray(a) || Array.isArray(b)) {
    return (
      Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((item, at) => sameJson(item, b[at]))
    );
  }
  const [left, right] = [new Map(Object.entries(a)), new Map(Object.entries(b))];
  if (left.size !== right.size) return false;
  for (const [name, value] of left) if (!right.has(name) || !sameJson(value, right.get(name))) return false;
  return true;
}
