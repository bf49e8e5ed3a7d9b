/** Values as people read them: numbers, sizes, times. Pure. */

import { parseInstant, usOfInstant } from '../shared/base/instant.ts';
import { text } from './text.ts';

const sizes = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function sizeText(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined || !Number.isFinite(bytes)) return text.values.unknown;
  let amount = bytes;
  let unit = 0;
  while (amount >= 1024 && unit < sizes.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? amount : amount.toFixed(amount < 10 ? 2 : 1)} ${sizes[unit]}`;
}

const grouped = new Intl.NumberFormat('en', { maximumFractionDigits: 1 });

export function countText(count: number | null | undefined): string {
  return count === null || count === undefined ? text.values.unknown : grouped.format(count);
}

export function percentText(percent: number | null): string {
  return percent === null ? text.values.unknown : `${grouped.format(percent)} %`;
}

/** The largest unit and the next one: "3 d 4 h", "2 min 5 s", "8 h". */
export function durationText(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return text.values.unknown;
  let rest = Math.max(0, Math.round(seconds));
  const parts: string[] = [];
  for (const [unit, size] of [
    ['d', 86_400],
    ['h', 3_600],
    ['min', 60],
    ['s', 1],
  ] as const) {
    const amount = Math.floor(rest / size);
    rest -= amount * size;
    if (amount > 0 || parts.length > 0) parts.push(`${amount} ${unit}`);
  }
  const [first = '0 s', second = '0'] = parts;
  return second.startsWith('0') ? first : `${first} ${second}`;
}

const clock = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const;
const timeOnly = new Intl.DateTimeFormat('en-GB', { ...clock, fractionalSecondDigits: 3 });
const day = new Intl.DateTimeFormat('en-CA', { year: 'numeric', month: '2-digit', day: '2-digit' });
const wholeTime = new Intl.DateTimeFormat('en-GB', clock);
/** The limit of Date: an entry of LogRaw may carry any number. */
const MAX_MS = 8.64e15;

/** "13:05:09.120", in the reader's own time zone. */
export function timeText(ms: number): string {
  return isTime(ms) ? timeOnly.format(ms) : text.values.noTime;
}

/** "2026-11-22" */
export function dayText(ms: number): string {
  return isTime(ms) ? day.format(ms) : text.values.noDate;
}

/** "2026-11-22T13:05:09": as a field for a time has it, in the reader's own time zone. */
export function fieldText(ms: number): string {
  return isTime(ms) ? `${day.format(ms)}T${wholeTime.format(ms)}` : '';
}

/** "2026-11-22 13:05:09", in the reader's own time zone. */
export function secondText(ms: number): string {
  return isTime(ms) ? `${day.format(ms)} ${wholeTime.format(ms)}` : text.values.noTime;
}

/** An RFC 3339 time of the interface: "2026-11-22 13:05:09". */
export function instantText(instant: string | null): string {
  if (instant === null) return '';
  const parsed = parseInstant(instant);
  if (parsed === undefined) return instant;
  return secondText(Number(usOfInstant(parsed) / 1_000n));
}

function isTime(ms: number): boolean {
  return Number.isFinite(ms) && Math.abs(ms) <= MAX_MS;
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${countText(count)} ${count === 1 ? one : many}`;
}
