/** CSV as RFC 4180 has it; also with semicolons or tabs, as spreadsheets of many countries write it. Pure. */

export interface Cell {
  readonly text: string;
  /** "" is a text without a character, nothing is no value. */
  readonly isQuoted: boolean;
}

export type CsvRow =
  /** `line`: the one on which the row begins; from 1. A quoted cell may have several. */
  { readonly line: number; readonly cells: readonly Cell[] } | { readonly line: number; readonly fault: CsvFault };

/** "open": a quote that is never closed; all after it is lost. "stray": a quote in a cell without quotes, or a text after the closing one. */
type CsvFault = 'open' | 'stray';

const SEPARATORS = [',', ';', '\t'] as const;

/** The one that the first line has most of. */
export function separatorOf(text: string): string {
  const first = /^[^\r\n]*/.exec(text)?.[0].replaceAll(/"[^"]*"/g, '') ?? '';
  const counts = SEPARATORS.map((one) => first.split(one).length);
  return SEPARATORS[counts.indexOf(Math.max(...counts))] ?? ',';
}

/** Blank lines are left out. A row with a fault is read on from its next line. */
export function* csvRows(text: string, separator: string): Generator<CsvRow> {
  const scan = new Scan(text, separator);
  while (!scan.isAtEnd()) {
    const row = scan.row();
    const isBlank = 'cells' in row && row.cells.length === 1 && row.cells[0]?.text === '' && !row.cells[0].isQuoted;
    if (!isBlank) yield row;
  }
}

class Scan {
  readonly #text: string;
  /** Up to the next separator or line end. */
  readonly #plain: RegExp;
  readonly #separator: string;
  #at = 0;
  #line = 1;

  constructor(text: string, separator: string) {
    this.#text = text;
    this.#separator = separator;
    this.#plain = new RegExp(`[^${separator}\\r\\n]*`, 'y');
  }

  isAtEnd(): boolean {
    return this.#at >= this.#text.length;
  }

  row(): CsvRow {
    const line = this.#line;
    const cells: Cell[] = [];
    for (;;) {
      const cell = this.#text[this.#at] === '"' ? this.#quoted() : this.#unquoted();
      if (typeof cell === 'string') {
        this.#skipLine();
        return { line, fault: cell };
      }
      cells.push(cell);
      if (this.#text[this.#at] !== this.#separator) break;
      this.#at += 1;
    }
    this.#endLine();
    return { line, cells };
  }

  #unquoted(): Cell | CsvFault {
    this.#plain.lastIndex = this.#at;
    const text = this.#plain.exec(this.#text)?.[0] ?? '';
    this.#at += text.length;
    return text.includes('"') ? 'stray' : { text, isQuoted: false };
  }

  #quoted(): Cell | CsvFault {
    let text = '';
    for (let from = this.#at + 1; ; ) {
      const end = this.#text.indexOf('"', from);
      const part = this.#text.slice(from, end < 0 ? undefined : end);
      this.#line += part.match(/\r\n?|\n/g)?.length ?? 0;
      text += part;
      this.#at = end < 0 ? this.#text.length : end + 1;
      if (end < 0) return 'open';
      if (this.#text[this.#at] !== '"') break;
      text += '"';
      from = this.#at + 1;
    }
    const next = this.#text[this.#at];
    const isEnd = next === undefined || next === this.#separator || next === '\r' || next === '\n';
    return isEnd ? { text, isQuoted: true } : 'stray';
  }

  #skipLine(): void {
    while (!this.isAtEnd() && this.#text[this.#at] !== '\n' && this.#text[this.#at] !== '\r') this.#at += 1;
    this.#endLine();
  }

  #endLine(): void {
    if (this.isAtEnd()) return;
    this.#at += this.#text.startsWith('\r\n', this.#at) ? 2 : 1;
    this.#line += 1;
  }
}
