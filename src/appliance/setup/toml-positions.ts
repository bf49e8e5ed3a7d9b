/**
 * Where each value stands in the text of a TOML document, which the parser does not tell: for faults with a line, and
 * for taking a secret out without touching anything else. For texts that the parser took; what it makes of others is
 * undefined. Pure.
 */
import { parse } from 'smol-toml';

export interface Place {
  /** Keys and indices from the root: ["token", 0, "name"]. */
  readonly path: readonly (string | number)[];
  /** 1 is the first. */
  readonly line: number;
  /** Of the value in the text, in UTF-16 units; a table's is that of its header. */
  readonly start: number;
  readonly end: number;
}

type Path = readonly (string | number)[];

const QUOTES = ['"""', "'''", '"', "'"] as const;

export function tomlPlaces(text: string): Place[] {
  const scanner = new Scanner(text);
  scanner.document();
  return scanner.places;
}

class Scanner {
  readonly places: Place[] = [];
  readonly #text: string;
  #at = 0;
  #line = 1;
  #lineAt = 0;
  /** How many tables each [[list]] has had so far, by its path. */
  readonly #lists = new Map<string, number>();

  constructor(text: string) {
    this.#text = text;
    if (text.startsWith('\uFEFF')) this.#at = 1;
  }

  document(): void {
    let table: Path = [];
    for (;;) {
      this.#space(/[\s]/);
      const next = this.#text[this.#at];
      if (next === undefined) return;
      if (next === '[') table = this.#header();
      else this.#pair(table);
    }
  }

  #header(): Path {
    const start = this.#at;
    const isList = this.#text.startsWith('[[', start);
    this.#at += isList ? 2 : 1;
    const keys = this.#keys(']');
    this.#at += isList ? 2 : 1;
    const path = this.#resolved(keys, isList);
    this.#note(path, start);
    return path;
  }

  /** A name that is a list's means its newest table; `isNew`: the last name begins another one. */
  #resolved(keys: readonly string[], isNew: boolean): Path {
    let path: Path = [];
    keys.forEach((key, i) => {
      path = [...path, key];
      const id = JSON.stringify(path);
      const count = this.#lists.get(id) ?? 0;
      const begins = isNew && i === keys.length - 1;
      if (begins) this.#lists.set(id, count + 1);
      if (begins || count > 0) path = [...path, begins ? count : count - 1];
    });
    return path;
  }

  #pair(table: Path): void {
    const path = [...table, ...this.#keys('=')];
    this.#at += 1;
    this.#space(/[ \t]/);
    this.#value(path);
  }

  /** Dotted, up to the character that ends them. */
  #keys(end: string): string[] {
    const keys: string[] = [];
    for (;;) {
      this.#space(/[ \t]/);
      const next = this.#text[this.#at];
      if (next === undefined || next === end) return keys;
      if (next === '.') this.#at += 1;
      else keys.push(this.#key());
    }
  }

  #key(): string {
    const start = this.#at;
    if (this.#quoted()) {
      const { key } = parse(`key = ${this.#text.slice(start, this.#at)}`);
      return typeof key === 'string' ? key : '';
    }
    this.#run(/[A-Za-z0-9_-]/);
    if (this.#at === start) this.#at += 1;
    return this.#text.slice(start, this.#at);
  }

  #value(path: Path): void {
    const start = this.#at;
    const first = this.#text[start];
    if (first === '[') this.#elements(path);
    else if (first === '{') this.#inline(path);
    else if (!this.#quoted()) this.#run(/[^\s,\]}#]/);
    this.#note(path, start);
  }

  #elements(path: Path): void {
    this.#at += 1;
    for (let index = 0; ; index++) {
      this.#space(/[\s,]/);
      if (this.#ends(']')) return;
      this.#value([...path, index]);
    }
  }

  #inline(path: Path): void {
    this.#at += 1;
    for (;;) {
      this.#space(/[\s,]/);
      if (this.#ends('}')) return;
      this.#pair(path);
    }
  }

  #ends(bracket: string): boolean {
    const next = this.#text[this.#at];
    if (next === bracket) this.#at += 1;
    return next === undefined || next === bracket;
  }

  /** Past a string in quotes of any kind; false: none begins here. */
  #quoted(): boolean {
    const quote = QUOTES.find((one) => this.#text.startsWith(one, this.#at));
    if (quote === undefined) return false;
    this.#at += quote.length;
    while (this.#at < this.#text.length && !this.#text.startsWith(quote, this.#at)) {
      this.#at += quote.startsWith('"') && this.#text[this.#at] === '\\' ? 2 : 1;
    }
    this.#at += quote.length;
    // Up to two quotes may stand before the three that end it.
    if (quote.length === 3) for (let i = 0; i < 2 && this.#text[this.#at] === quote[0]; i++) this.#at += 1;
    return true;
  }

  /** Past these characters, and comments. */
  #space(kind: RegExp): void {
    for (;;) {
      this.#run(kind);
      if (this.#text[this.#at] !== '#') return;
      this.#run(/[^\n]/);
    }
  }

  #run(kind: RegExp): void {
    for (let next = this.#text[this.#at]; next !== undefined && kind.test(next); next = this.#text[this.#at]) {
      this.#at += 1;
    }
  }

  #note(path: Path, start: number): void {
    // Values are noted as they end: an outer one after those inside it, which stand on later lines.
    if (start < this.#lineAt) {
      this.#lineAt = 0;
      this.#line = 1;
    }
    for (; this.#lineAt < start; this.#lineAt++) if (this.#text[this.#lineAt] === '\n') this.#line += 1;
    this.places.push({ path, line: this.#line, start, end: Math.min(this.#at, this.#text.length) });
  }
}
