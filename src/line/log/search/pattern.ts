/**
 * What a search of the log looks for, as a finder of matches in bytes. Pure.
 *
 * The engine of regular expressions is re2js: its time is linear in the bytes, whatever the expression is.
 */
import { RE2JS } from 're2js';
import { LinesideError, messageOf } from '../../../shared/base/errors.ts';

type PatternKind = 'text' | 'hex' | 'regex';

export interface Pattern {
  readonly kind: PatternKind;
  readonly value: string;
  /** Letters A to Z alone; not with hex. */
  readonly ignoreCase: boolean;
}

/** Bytes of a text or hex pattern; characters of a regular expression. */
const MAX_PATTERN = 1_024;
/** A match of a regular expression is sure to be found up to this length. */
const REGEX_WINDOW = 1_024;

/** False: no more matches are wanted. */
type Found = (start: number, end: number) => boolean;

export interface Finder {
  /** Bytes that are worth one search. */
  readonly windowBytes: number;
  /** A match near the end is not reported before bytes have followed. */
  readonly waits: boolean;
  /** Called once for all bytes, before they are searched. */
  prepare(bytes: Buffer, from: number, to: number): void;
  /**
   * Finds the matches in the bytes up to `to` that begin at `from` or later, in their order; they do not overlap. `isFinal`: no match
   * waits. Returns where the next search begins, when bytes have followed.
   */
  search(bytes: Buffer, from: number, to: number, isFinal: boolean, found: Found): number;
}

/** Throws INVALID_ARGUMENT. */
export function finderOf({ kind, value, ignoreCase }: Pattern): Finder {
  if (kind === 'regex') return new RegexFinder(value, ignoreCase);
  if (kind === 'hex') {
    if (ignoreCase) throw invalid('ignore_case: not with a hex pattern');
    return new BytesFinder(hexPattern(value), false);
  }
  const bytes = Buffer.from(value);
  if (bytes.length === 0) throw invalid('text: is empty');
  return new BytesFinder(limited([...bytes], 'text'), ignoreCase);
}

/** undefined: any byte. */
type ByteOrAny = number | undefined;

function limited(bytes: ByteOrAny[], field: PatternKind): ByteOrAny[] {
  if (bytes.length > MAX_PATTERN) throw invalid(`${field}: has ${bytes.length} bytes, more than ${MAX_PATTERN}`);
  return bytes;
}

/** "01 03 ?? 0a", with or without spaces. */
function hexPattern(value: string): ByteOrAny[] {
  const digits = value.replaceAll(/\s+/g, '');
  if (digits === '') throw invalid('hex: is empty');
  if (digits.length % 2 === 1) throw invalid('hex: has an odd number of digits');
  const pairs = digits.match(/../g) ?? [];
  const odd = pairs.find((pair) => !/^([0-9a-fA-F]{2}|\?\?)$/.test(pair));
  if (odd !== undefined) throw invalid(`hex: "${odd}" is neither two hex digits nor "??" (any byte)`);
  if (pairs.every((pair) => pair === '??')) throw invalid('hex: needs one byte at least that is not "??"');
  return limited(
    pairs.map((pair) => (pair === '??' ? undefined : Number.parseInt(pair, 16))),
    'hex',
  );
}

const KIB = 1024;
const [upperA, upperZ, toLower] = [0x41, 0x5a, 0x20];

class BytesFinder implements Finder {
  /** Of small blocks, what a window holds outlives garbage collections: with 1 MiB their search took half as much again. */
  readonly windowBytes = 64 * KIB;
  readonly waits = false;
  readonly #ignoreCase: boolean;
  readonly #length: number;
  /** The longest run of known bytes, and its place in the pattern. */
  readonly #anchor: Buffer;
  readonly #anchorAt: number;
  /** Known bytes outside of it, with their places. */
  readonly #others: readonly (readonly [at: number, byte: number])[];

  constructor(pattern: readonly ByteOrAny[], ignoreCase: boolean) {
    this.#ignoreCase = ignoreCase;
    this.#length = pattern.length;
    const [from, to] = longestRun(pattern);
    this.#anchorAt = from;
    this.#anchor = Buffer.from(pattern.slice(from, to) as number[]);
    if (ignoreCase) lower(this.#anchor, 0, this.#anchor.length);
    this.#others = pattern.flatMap((byte, at) => (byte === undefined || (at >= from && at < to) ? [] : [[at, byte]]));
  }

  prepare(bytes: Buffer, from: number, to: number): void {
    if (this.#ignoreCase) lower(bytes, from, to);
  }

  search(bytes: Buffer, from: number, to: number, _isFinal: boolean, found: Found): number {
    const window = bytes.subarray(0, to);
    let next = from;
    for (;;) {
      const at = window.indexOf(this.#anchor, next + this.#anchorAt);
      const start = at - this.#anchorAt;
      if (at === -1 || start + this.#length > to) return Math.max(next, to - this.#length + 1);
      if (!this.#others.every(([place, byte]) => window[start + place] === byte)) {
        next = start + 1;
        continue;
      }
      next = start + this.#length;
      if (!found(start, next)) return next;
    }
  }
}

function longestRun(pattern: readonly ByteOrAny[]): readonly [from: number, to: number] {
  let best: readonly [number, number] = [0, 0];
  let from = 0;
  for (let at = 0; at <= pattern.length; at++) {
    if (at < pattern.length && pattern[at] !== undefined) continue;
    if (at - from > best[1] - best[0]) best = [from, at];
    from = at + 1;
  }
  return best;
}

/** Letters A to Z. Four bytes at once: one by one, they took as long as the search itself. */
function lower(bytes: Buffer, from: number, to: number): void {
  const [begin, end] = [bytes.byteOffset + from, bytes.byteOffset + to];
  const [firstWord, lastWord] = [Math.ceil(begin / 4), Math.floor(end / 4)];
  if (firstWord >= lastWord) {
    lowerEach(bytes, from, to);
    return;
  }
  lowerEach(bytes, from, 4 * firstWord - bytes.byteOffset);
  const words = new Int32Array(bytes.buffer, 4 * firstWord, lastWord - firstWord);
  for (let i = 0; i < words.length; i++) {
    const word = words[i] ?? 0;
    const ascii = word & 0x7f7f7f7f;
    // In the high bit of each byte: it is "A" or more, it is more than "Z", it is above 7f.
    const isLetter = (ascii + 0x3f3f3f3f) & ~(ascii + 0x25252525) & ~word & 0x80808080;
    words[i] = word | (isLetter >>> 2);
  }
  lowerEach(bytes, 4 * lastWord - bytes.byteOffset, to);
}

function lowerEach(bytes: Buffer, from: number, to: number): void {
  for (let i = from; i < to; i++) {
    const byte = bytes[i] ?? 0;
    if (byte >= upperA && byte <= upperZ) bytes[i] = byte | toLower;
  }
}

class RegexFinder implements Finder {
  /** What a slow expression (some MB/s) takes a tenth of a second for. */
  readonly windowBytes = 128 * KIB;
  readonly waits = true;
  readonly #regex: RE2JS;

  constructor(expression: string, ignoreCase: boolean) {
    if (expression === '') throw invalid('regex: is empty');
    const { length } = Buffer.from(expression);
    if (length > MAX_PATTERN) throw invalid(`regex: has ${length} bytes, more than ${MAX_PATTERN}`);
    this.#regex = compiled(expression, RE2JS.MULTILINE | (ignoreCase ? RE2JS.CASE_INSENSITIVE : 0));
  }

  prepare(): void {}

  /** A match that begins near the end may be longer once bytes have followed: it waits for them. */
  search(bytes: Buffer, from: number, to: number, isFinal: boolean, found: Found): number {
    const matcher = this.#regex.matcher(bytes.toString('latin1', 0, to));
    const waitFrom = Math.max(from, to - REGEX_WINDOW);
    let next = from;
    for (let is = from <= to && matcher.find(from); is; is = matcher.find()) {
      const [start, end] = [matcher.start(), matcher.end()];
      if (start >= waitFrom && !isFinal) return start;
      if (end === start) continue;
      next = end;
      if (!found(start, end)) return next;
    }
    return Math.max(next, waitFrom);
  }
}

/** The bytes of the expression as characters, as those of the log are. */
function compiled(expression: string, flags: number): RE2JS {
  try {
    return RE2JS.compile(Buffer.from(expression).toString('latin1'), flags);
  } catch (error) {
    throw invalid(`regex: ${messageOf(error).replace(/^error parsing regexp: /, '')}`);
  }
}

function invalid(message: string): LinesideError {
  return new LinesideError('INVALID_ARGUMENT', message);
}
