/**
 * The log as the files that people export: lines of text, JSON lines, a capture for Wireshark, the bytes alone. The command line and
 * the console write the same. Pure.
 */
import { utcTime, zonedTime } from '../base/instant.ts';
import { shownJson } from '../base/shown-json.ts';
import { visibleText } from './byte-text.ts';
import { captureHead, captureOfEntry, captureOfGap } from './pcapng.ts';

/** A 64-bit number of the interface; from 2^53 on its digits. */
export type Exact = number | string;

export interface LoggedEntry {
  readonly kind: 'entry';
  readonly id: Exact;
  readonly dir: string;
  readonly timestampMs: Exact;
  readonly clock: string;
  /** With the clock 'corrected'. */
  readonly uncorrectedTimestampMs?: Exact;
  readonly bytes: Uint8Array;
  readonly note: string;
}

/** Entries that could not be stored. */
export interface LoggedGap {
  readonly kind: 'gap';
  readonly firstId: Exact;
  /** The last missing one. */
  readonly id: Exact;
  readonly entries: Exact;
  readonly bytes: Exact;
  readonly fromMs: Exact;
  readonly toMs: Exact;
  readonly reason: string;
}

export type Logged = LoggedEntry | LoggedGap;

export const logFormats = ['text', 'jsonl', 'pcapng', 'raw'] as const;
export type LogFormat = (typeof logFormats)[number];

/** A part of a file: text is UTF-8. */
export type FilePart = string | Uint8Array;

export interface LogWriter {
  /** What the file begins with. */
  readonly head: FilePart;
  readonly part: (items: Iterable<Logged>) => FilePart;
}

/** `data`: how JSON carries the bytes. */
export function logWriter(format: LogFormat, data: (bytes: Uint8Array) => DataJson): LogWriter {
  switch (format) {
    case 'text':
      return { head: '', part: (items) => joined(items, textLine) };
    case 'jsonl':
      return { head: '', part: (items) => joined(items, (item) => jsonLineOf(item, data)) };
    case 'pcapng':
      return { head: captureHead(), part: (items) => bytesOf(items, captured) };
    case 'raw':
      return { head: '', part: (items) => bytesOf(items, (item) => (item.kind === 'entry' ? [item.bytes] : [])) };
  }
}

function joined(items: Iterable<Logged>, write: (item: Logged) => string): string {
  let text = '';
  for (const item of items) text += write(item);
  return text;
}

function bytesOf(items: Iterable<Logged>, write: (item: Logged) => readonly Uint8Array[]): Uint8Array {
  const parts = Array.from(items, write).flat();
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

// Text: a line for each entry.

const clockMarks: Readonly<Record<string, string>> = { notSet: '?', corrected: '~' };
const encoder = new TextEncoder();

function textLine(item: Logged): string {
  if (item.kind === 'gap') return `-- ${gapSentence(item)} --\n`;
  const { dir, timestampMs, clock, bytes, note } = item;
  const noted = note === '' ? '' : ` # ${visibleText(encoder.encode(note))}`;
  return `${zonedTime(timestampMs)}${clockMarks[clock] ?? ' '}${dir.toUpperCase()} ${visibleText(bytes)}${noted}\n`;
}

/** 123 entries (4,567 bytes) not stored: disk full, 2026-01-31T12:00:01.000Z to 2026-01-31T12:05:00.000Z */
export function gapSentence({ entries, bytes, reason, fromMs, toMs }: LoggedGap, when = utcSpan): string {
  const why = reason === '' ? '' : `${visibleText(encoder.encode(reason))}, `;
  return `${counted(entries, 'entry', 'entries')} (${counted(bytes, 'byte')}) not stored: ${why}${when(fromMs, toMs)}`;
}

function utcSpan(fromMs: Exact, toMs: Exact): string {
  return `${utcTime(fromMs) ?? `${fromMs} ms`} to ${utcTime(toMs) ?? `${toMs} ms`}`;
}

/** "1 entry", "1,234 entries". */
export function counted(value: Exact, one: string, many = `${one}s`): string {
  return `${grouped(value)} ${String(value) === '1' ? one : many}`;
}

/** Digits in groups of three: 1,234,567. */
export function grouped(value: Exact): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ',');
}

// JSON: an entry or {"gap": ...} to a line.

export type DataJson = { readonly hex: string } | { readonly base64: string };

export function jsonLineOf(item: Logged, data: (bytes: Uint8Array) => DataJson): string {
  const json = item.kind === 'gap' ? { gap: gapJson(item) } : entryJson(item, data(item.bytes));
  return `${shownJson(json)}\n`;
}

export function entryJson(entry: LoggedEntry, data: DataJson) {
  const { id, timestampMs, clock, uncorrectedTimestampMs, dir, note } = entry;
  return {
    id,
    time: utcTime(timestampMs),
    timestampMs,
    ...(clock === 'unknown' ? {} : { clock }),
    ...(uncorrectedTimestampMs === undefined ? {} : { uncorrectedTimestampMs }),
    dir,
    ...data,
    ...(note === '' ? {} : { note }),
  };
}

export function gapJson({ firstId, id, entries, bytes, fromMs, toMs, reason }: Omit<LoggedGap, 'kind'>) {
  return { firstId, lastId: id, entries, bytes, from: utcTime(fromMs), to: utcTime(toMs), reason };
}

// A capture.

function captured(item: Logged): readonly Uint8Array[] {
  return item.kind === 'gap'
    ? captureOfGap(item.fromMs, gapSentence(item))
    : captureOfEntry(item.dir === 'tx', item.timestampMs, item.bytes, noteWithClock(item));
}

/** A capture has no field for what a time is worth: it is said beside it. */
function noteWithClock({ clock, uncorrectedTimestampMs = 0, note }: LoggedEntry): string {
  const stamped = `clock corrected, stamped ${utcTime(uncorrectedTimestampMs) ?? ''}`;
  const said = clock === 'notSet' ? 'clock not set' : clock === 'corrected' ? stamped : '';
  return [note, said].filter((part) => part !== '').join('; ');
}

// How far an export is.

export interface ExportPlace {
  readonly id: number;
  readonly ms: number;
}

/** 0 to 1. An export ends at the last entry of its start, or at a time: whichever is nearer. `untilMs` 0: at no time. */
export function exportedShare(first: ExportPlace, at: ExportPlace, lastId: number, untilMs: number): number {
  const byId = (at.id - first.id) / Math.max(1, lastId - first.id);
  const byTime = untilMs === 0 ? 0 : (at.ms - first.ms) / Math.max(1, untilMs - first.ms);
  return Math.max(0, Math.min(1, Math.max(byId, byTime)));
}
