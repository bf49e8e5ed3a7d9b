/**
 * A bundle's bytes, in blocks as they came, cut into its entries: the lines of NDJSON, or the elements of {"items": [...]}.
 * Nothing is kept but the entry at hand, and of one that is too long nothing. Pure.
 */
import { LinesideError } from '../../shared/base/errors.ts';
import type { BundleFormat } from './face.ts';

export interface Entry {
  /** "line 3", "item 3"; from 1. */
  readonly label: string;
  /** undefined: longer than the limit. */
  readonly bytes: Uint8Array | undefined;
}

/** Data of 256 KiB written with every character escaped, and the item around it. */
export const maxEntryBytes = 1024 * 1024;

const LF = 0x0a;
const QUOTE = 0x22;
const COMMA = 0x2c;
const COLON = 0x3a;
const BRACKET = 0x5b;
const BACKSLASH = 0x5c;
const BRACKET_END = 0x5d;
const BRACE = 0x7b;
const BRACE_END = 0x7d;
const END = -1;

/** Throws MALFORMED where the frame around JSON items is not there. */
export function entriesOf(format: BundleFormat, blocks: Iterable<Uint8Array>): Generator<Entry> {
  return format === 'ndjson' ? linesOf(blocks) : itemsOf(new Cursor(blocks));
}

/** Also the last line where no line feed ends it. Blank ones are entries: they count. */
function* linesOf(blocks: Iterable<Uint8Array>): Generator<Entry> {
  const line = new EntryBytes();
  let number = 1;
  for (const block of blocks) {
    let from = 0;
    for (let at = block.indexOf(LF); at >= 0; at = block.indexOf(LF, from)) {
      line.add(block.subarray(from, at));
      yield { label: `line ${number++}`, bytes: line.take() };
      from = at + 1;
    }
    line.add(block.subarray(from));
  }
  if (!line.empty) yield { label: `line ${number}`, bytes: line.take() };
}

function* itemsOf(cursor: Cursor): Generator<Entry> {
  cursor.skipMark();
  for (const expected of [BRACE, QUOTE]) cursor.expect(expected);
  if (cursor.rest(6) !== 'items"') throw malformed('its one field must be "items"');
  for (const expected of [COLON, BRACKET]) cursor.expect(expected);
  cursor.skipBlanks();
  let number = 1;
  let more = cursor.byte !== BRACKET_END;
  if (!more) cursor.step();
  while (more) {
    const bytes = cursor.element(number);
    if (cursor.byte !== COMMA && cursor.byte !== BRACKET_END) throw malformed(`it breaks off in item ${number}`);
    more = cursor.byte === COMMA;
    cursor.step();
    yield { label: `item ${number++}`, bytes };
  }
  cursor.expect(BRACE_END);
  cursor.skipBlanks();
  if (cursor.byte !== END) throw malformed('something comes after its end');
}

function malformed(why: string): LinesideError {
  return new LinesideError('MALFORMED', `the bundle is not {"items": [...]}: ${why}`);
}

/** The pieces of one entry, which may lie across blocks. */
class EntryBytes {
  #parts: Uint8Array[] = [];
  #length = 0;

  get empty(): boolean {
    return this.#length === 0;
  }

  add(part: Uint8Array): void {
    this.#length += part.length;
    if (this.#length > maxEntryBytes) this.#parts = [];
    else if (part.length > 0) this.#parts.push(part);
  }

  take(): Uint8Array | undefined {
    const [parts, length] = [this.#parts, this.#length];
    this.#parts = [];
    this.#length = 0;
    if (length > maxEntryBytes) return undefined;
    return parts.length === 1 && parts[0] !== undefined ? parts[0] : Buffer.concat(parts, length);
  }
}

class Cursor {
  readonly #blocks: Iterator<Uint8Array>;
  #block: Uint8Array = new Uint8Array();
  #at = 0;
  /** The byte under the cursor; END behind the last. */
  byte: number = END;

  constructor(blocks: Iterable<Uint8Array>) {
    this.#blocks = blocks[Symbol.iterator]();
    this.#load();
  }

  step(): void {
    const byte = this.#block[++this.#at];
    if (byte === undefined) this.#load();
    else this.byte = byte;
  }

  skipMark(): void {
    if (this.byte === 0xef) for (let i = 0; i < 3; i++) this.step();
  }

  skipBlanks(): void {
    while (this.byte === 0x20 || this.byte === LF || this.byte === 0x0d || this.byte === 0x09) this.step();
  }

  expect(wanted: number): void {
    this.skipBlanks();
    if (this.byte !== wanted) throw malformed(`a ${String.fromCharCode(wanted)} is missing`);
    this.step();
  }

  rest(length: number): string {
    let text = '';
    for (; text.length < length && this.byte !== END; this.step()) text += String.fromCharCode(this.byte);
    return text;
  }

  /** Up to the comma or bracket that ends it, which may be missing: the caller looks. */
  element(number: number): Uint8Array | undefined {
    const parts = new EntryBytes();
    let from = this.#at;
    const flush = (): void => parts.add(this.#block.subarray(from, this.#at));
    const step = (): void => {
      const block = this.#block;
      const at = this.#at;
      this.step();
      if (this.#block === block && this.byte !== END) return;
      parts.add(block.subarray(from, at + 1));
      from = this.#at;
    };
    let depth = 0;
    for (; this.byte !== END; step()) {
      if (depth === 0 && (this.byte === COMMA || this.byte === BRACKET_END || this.byte === BRACE_END)) break;
      if (this.byte === QUOTE) skipString(this, step, number);
      else if (this.byte === BRACE || this.byte === BRACKET) depth++;
      else if (this.byte === BRACE_END || this.byte === BRACKET_END) depth--;
    }
    flush();
    return parts.take();
  }

  #load(): void {
    for (;;) {
      const { value, done } = this.#blocks.next();
      if (done === true) {
        this.#block = new Uint8Array();
        this.#at = 0;
        this.byte = END;
        return;
      }
      const [byte] = value;
      if (byte === undefined) continue;
      this.#block = value;
      this.#at = 0;
      this.byte = byte;
      return;
    }
  }
}

/** To the closing quote. */
function skipString(cursor: Cursor, step: () => void, number: number): void {
  for (step(); cursor.byte !== QUOTE; step()) {
    if (cursor.byte === BACKSLASH) step();
    if (cursor.byte === END) throw malformed(`a text in item ${number} has no end`);
  }
}
