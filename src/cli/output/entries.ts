/** Log entries and gaps as lines for people. Pure, but for the day it remembers to print once. */
import { visibleText } from '../../shared/log-formats/byte-text.ts';
import { type Exact, gapSentence, jsonLineOf, type Logged } from '../../shared/log-formats/log-formats.ts';
import type { lineside } from '../../shared/proto/services.ts';
import { type Colour, painted } from './colour.ts';
import { asciiColumn, safeText, spacedHex } from './hex.ts';
import { type DataForm, dataJson, directionName, entryClockName, loggedEntry, loggedGap } from './json.ts';
import { exact, localTime, type Uint64 } from './numbers.ts';

export type DataView = 'hex' | 'text' | 'both';

export interface EntryLook {
  readonly view: DataView;
  /** Columns of the terminal; 0: none. On a terminal the day is printed once, elsewhere on every line. */
  readonly width: number;
  readonly colour: boolean;
  readonly ids: boolean;
}

/** What a batch holds, in log order. */
export type LogItem<Gap = lineside.v1.LogGap> =
  | { readonly kind: 'entry'; readonly value: lineside.v1.LogEntry }
  | { readonly kind: 'gap'; readonly value: Gap };

/** Gaps stand before the entries that follow them. */
export function* logItems<Gap extends Pick<lineside.v1.LogGap, 'firstId'>>(batch: {
  readonly entries: readonly lineside.v1.LogEntry[];
  readonly gaps: readonly Gap[];
}): Generator<LogItem<Gap>> {
  let next = 0;
  for (const value of batch.entries) {
    for (let gap = batch.gaps[next]; gap?.firstId.lessThan(value.id); gap = batch.gaps[next]) {
      yield { kind: 'gap', value: gap };
      next += 1;
    }
    yield { kind: 'entry', value };
  }
  for (const value of batch.gaps.slice(next)) yield { kind: 'gap', value };
}

const usualRowBytes = 16;
const rowStep = 4;
/** "12:00:00.123 RX " */
const leadColumns = 16;

/** Bytes in a row of the dump that fit the terminal: 16, or 12, 8, 4. */
export function rowBytes(view: DataView, width: number): number {
  if (width === 0) return usualRowBytes;
  const free = width - leadColumns;
  const fit = view === 'both' ? Math.floor((free - 3) / 4) : Math.floor((free + 1) / 3);
  return Math.max(rowStep, Math.min(usualRowBytes, fit - (fit % rowStep)));
}

const colours: Readonly<Record<string, Colour>> = { tx: 'cyan', rx: 'green', gap: 'yellow' };

/** Stands between the time and what follows, so that columns stay where they are. */
export function clockMark(clock: number): string {
  const known = entryClockName(clock);
  return known === 'notSet' ? '?' : known === 'corrected' ? '~' : ' ';
}

export class EntryPrinter {
  readonly #look: EntryLook;
  readonly #rowBytes: number;
  #day = '';

  constructor(look: EntryLook) {
    this.#look = look;
    this.#rowBytes = rowBytes(look.view, look.width);
  }

  item(item: LogItem): string {
    if (item.kind === 'entry') return this.#entry(item.value);
    return `${this.#painted('gap', `-- ${gapPhrase(item.value)} --`)}\n`;
  }

  #entry({ id, entry, clock }: lineside.v1.LogEntry): string {
    const direction = directionName(entry.dir);
    const when = this.#when(entry.timestamp);
    const number = this.#look.ids ? `${exact(id)} ` : '';
    const lead = `${when.stamp}${clockMark(clock)}${number}${this.#painted(direction, direction.toUpperCase())} `;
    const blank = ' '.repeat(when.stamp.length + number.length + direction.length + 2);
    const rows = entry.rawData.length === 0 ? [] : this.#rows(entry.rawData);
    if (entry.note !== '' || rows.length === 0) rows.push(`# ${safeText(entry.note)}`.trimEnd());
    return `${when.dayLine}${rows.map((row, at) => `${at === 0 ? lead : blank}${row}\n`).join('')}`;
  }

  #when(timestamp: Uint64): { stamp: string; dayLine: string } {
    const { date, time } = localTime(timestamp);
    if (this.#look.width === 0) return { stamp: `${date} ${time}`.trim(), dayLine: '' };
    const dayLine = date === this.#day || date === '' ? '' : `-- ${date} --\n`;
    if (date !== '') this.#day = date;
    return { stamp: time, dayLine };
  }

  #rows(data: Uint8Array): string[] {
    const { view } = this.#look;
    if (view === 'text') return [visibleText(data)];
    const rows: string[] = [];
    const hexColumns = this.#rowBytes * 3 - 1;
    for (let at = 0; at < data.length; at += this.#rowBytes) {
      const part = data.subarray(at, at + this.#rowBytes);
      const hex = spacedHex(part);
      rows.push(view === 'hex' ? hex : `${hex.padEnd(hexColumns)} |${asciiColumn(part)}|`);
    }
    return rows;
  }

  #painted(what: string, text: string): string {
    const colour = this.#look.colour ? colours[what] : undefined;
    return colour === undefined ? text : painted(colour, text);
  }
}

/** 123 entries (4,567 bytes) not stored: disk full, 12:00:01 to 12:05:00 */
export function gapPhrase(gap: lineside.v1.LogGap): string {
  return gapSentence(loggedGap(gap), localSpan);
}

function localSpan(fromMs: Exact, toMs: Exact): string {
  const from = localTime(fromMs);
  const to = localTime(toMs);
  return `${`${from.date} ${from.time}`.trim()} to ${from.date === to.date ? to.time : `${to.date} ${to.time}`}`;
}

/** Of a batch of the log, what is shown. */
export type Shown = Pick<lineside.v1.LogBatch, 'entries' | 'gaps'>;

export function* logged(batch: Shown): Generator<Logged> {
  for (const { kind, value } of logItems(batch)) yield kind === 'gap' ? loggedGap(value) : loggedEntry(value);
}

/** An entry or {"gap": ...} to a line. */
export function jsonLines(batch: Shown, form: DataForm): string {
  return Array.from(logged(batch), (item) => jsonLineOf(item, (bytes) => dataJson(bytes, form))).join('');
}
