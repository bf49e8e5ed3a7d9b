/** Rows of the log that are selected, from one to another, and their text for the clipboard. Pure. */
import { hexText, visibleText } from '../shared/log-formats/byte-text.ts';
import { dayText, plural, timeText } from './format.ts';
import type { BytesRow, Row, ShownRow } from './rows.ts';
import { text } from './text.ts';

/** Ids of rows. A row that arrives or leaves changes no end of it. */
export interface Selection {
  readonly anchor: number;
  /** Where the keyboard is. */
  readonly head: number;
}

export interface Keys {
  readonly key: string;
  readonly shiftKey: boolean;
  /** Ctrl, or Command on a Mac. */
  readonly control: boolean;
}

/** `id`: the row that was clicked. */
export function picked(selection: Selection | undefined, id: number, extend: boolean): Selection {
  return { anchor: extend ? (selection?.anchor ?? id) : id, head: id };
}

export function everyRow(rows: readonly ShownRow[]): Selection | undefined {
  const [first, last] = [rows[0], rows.at(-1)];
  return first === undefined || last === undefined ? undefined : { anchor: first.id, head: last.id };
}

/** After a key press. 'none': nothing is selected any more; undefined: the key is none of the selection's. */
export function moved(
  rows: readonly ShownRow[],
  selection: Selection | undefined,
  { key, shiftKey, control }: Keys,
  pageRows: number,
): Selection | 'none' | undefined {
  if (control) return key.toLowerCase() === 'a' ? everyRow(rows) : undefined;
  if (key === 'Escape') return selection === undefined ? undefined : 'none';
  const current = rows.findIndex(({ id }) => id === selection?.head);
  const last = rows.length - 1;
  const to: Readonly<Record<string, number | undefined>> = {
    ArrowDown: Math.min(last, current + 1),
    ArrowUp: current < 0 ? last : Math.max(0, current - 1),
    PageDown: Math.min(last, current + pageRows),
    PageUp: current < 0 ? last : Math.max(0, current - pageRows),
    Home: 0,
    End: last,
  };
  const row = rows[to[key] ?? -1];
  return row === undefined ? undefined : picked(selection, row.id, shiftKey);
}

export function isSelected(selection: Selection | undefined, id: number): boolean {
  if (selection === undefined) return false;
  const { anchor, head } = selection;
  return id >= Math.min(anchor, head) && id <= Math.max(anchor, head);
}

export function selectedRows(rows: readonly ShownRow[], selection: Selection | undefined): readonly ShownRow[] {
  return selection === undefined ? [] : rows.filter(({ id }) => isSelected(selection, id));
}

/** Whether a row that is shown is this one, or a line with some of its bytes. */
export function holds(row: ShownRow, wanted: Row): boolean {
  if (row.kind !== 'line') return row.id === wanted.id;
  const isBetween = Math.floor(row.id) <= wanted.id && wanted.id <= row.lastId;
  return isBetween && wanted.kind === 'entry' && wanted.dir === row.dir;
}

/** Which form of the bytes is shown, and copied. `lines`: of all entries as one text, the others: of each entry. */
export type LogView = 'both' | 'lines' | 'text' | 'hex';

/** A clipboard of so many characters is a page of a book library; some browsers stall at more. */
export const MAX_COPIED = 8_000_000;

/** As they are shown, a line each. `bytesOnly`: without times, directions and what is no entry. undefined: more than MAX_COPIED. */
export function copiedText(rows: readonly ShownRow[], view: LogView, bytesOnly: boolean): string | undefined {
  let copied = '';
  for (const row of rows) {
    const hasBytes = row.kind === 'entry' || row.kind === 'line';
    if (hasBytes || !bytesOnly) copied += `${hasBytes && bytesOnly ? bytesText(row, view) : rowText(row, view)}\n`;
    if (copied.length > MAX_COPIED) return undefined;
  }
  return copied;
}

function rowText(row: ShownRow, view: LogView): string {
  if (row.kind === 'gap')
    return `-- ${text.log.missing(plural(row.entries, 'entry is', 'entries are'), row.reason)} --`;
  const { timestampMs, clock } = row.kind === 'event' ? row.event : row;
  const when = `${dayText(timestampMs)} ${timeText(timestampMs)}${text.log.clockMarks[clock][0] || ' '}`;
  if (row.kind === 'event') return `${when}-- ${text.log.event(row.event)} --`;
  const note = row.note === '' ? '' : ` # ${row.note}`;
  return `${when}${row.dir.toUpperCase()} ${bytesText(row, view)}${note}`;
}

function bytesText(row: BytesRow, view: LogView): string {
  const { bytes } = row;
  // The line of the copy is its end.
  if (row.kind === 'line') return visibleText(bytes.subarray(0, bytes.length - row.endBytes));
  if (view !== 'both') return view === 'hex' ? hexText(bytes) : visibleText(bytes);
  return `${hexText(bytes)}  ${visibleText(bytes)}`;
}
