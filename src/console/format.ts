/** Values as people read them: numbers, sizes, times, the line's history. Pure. */

import { parseInstant, usOfInstant } from '../shared/base/instant.ts';
import type { LineHistory } from '../shared/gen/http.ts';

const sizes = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function sizeText(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined || !Number.isFinite(bytes)) return 'unknown';
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
  return count === null || count === undefined ? 'unknown' : grouped.format(count);
}

export function percentText(percent: number | null): string {
  return percent === null ? 'unknown' : `${grouped.format(percent)} %`;
}

/** The two largest units: "3 d 4 h", "2 min 5 s", "40 s". */
export function durationText(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return 'unknown';
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
    if (amount > 0) parts.push(`${amount} ${unit}`);
  }
  return parts.slice(0, 2).join(' ') || '0 s';
}

const clock = { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' } as const;
const timeOnly = new Intl.DateTimeFormat('en-GB', { ...clock, fractionalSecondDigits: 3 });
const day = new Intl.DateTimeFormat('en-CA', { year: 'numeric', month: '2-digit', day: '2-digit' });
const wholeTime = new Intl.DateTimeFormat('en-GB', clock);
/** The limit of Date: an entry of LogRaw may carry any number. */
const MAX_MS = 8.64e15;

/** "13:05:09.120", in the reader's own time zone. */
export function timeText(ms: number): string {
  return isTime(ms) ? timeOnly.format(ms) : 'no time';
}

/** "2026-11-22" */
export function dayText(ms: number): string {
  return isTime(ms) ? day.format(ms) : 'no date';
}

/** "2026-11-22T13:05:09": as a field for a time has it, in the reader's own time zone. */
export function fieldText(ms: number): string {
  return isTime(ms) ? `${day.format(ms)}T${wholeTime.format(ms)}` : '';
}

/** An RFC 3339 time of the interface: "2026-11-22 13:05:09". */
export function instantText(instant: string | null): string {
  if (instant === null) return '';
  const parsed = parseInstant(instant);
  if (parsed === undefined) return instant;
  const ms = Number(usOfInstant(parsed) / 1_000n);
  return `${day.format(ms)} ${wholeTime.format(ms)}`;
}

function isTime(ms: number): boolean {
  return Number.isFinite(ms) && Math.abs(ms) <= MAX_MS;
}

/** "rxDroppedPackets" as "Rx dropped packets". */
export function wordsOf(name: string): string {
  const words = name.replace(/([A-Z])/g, (letter) => ` ${letter.toLowerCase()}`).trim();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${countText(count)} ${count === 1 ? one : many}`;
}

// The line's history as the columns of a plot, and in words.

/** `nowS`: the reader's own clock in Unix seconds, as samples have an age only. */
export function columnsOf({ intervalS, samples }: LineHistory, nowS: number, spanS: number) {
  const seen = samples.filter(([ageS]) => ageS <= spanS);
  // Bytes per second; null while no port was open, so that the plot has no line there.
  const rates = (column: 1 | 2): (number | null)[] =>
    seen.map((sample) => {
      const isSilent = sample[5] === 0 && sample[1] === 0 && sample[2] === 0;
      return isSilent ? null : sample[column] / intervalS;
    });
  return {
    times: seen.map(([ageS]) => nowS - ageS),
    rx: rates(1),
    tx: rates(2),
    /** In the interval. */
    errors: seen.map((sample) => sample[4]),
  };
}

/** For those who do not see the plot. */
export function historyText({ intervalS, samples }: LineHistory, spanS: number): string {
  const seen = samples.filter(([ageS]) => ageS <= spanS);
  if (seen.length === 0) return 'There is no history yet: the first point comes some seconds after the start.';
  const sum = (column: 1 | 2 | 4): number => seen.reduce((total, sample) => total + sample[column], 0);
  const openFor = seen.filter((sample) => sample[5] === 1).length * intervalS;
  return [
    `In the last ${durationText(seen.length * intervalS)}:`,
    `received ${sizeText(sum(1))}, sent ${sizeText(sum(2))},`,
    `${countText(sum(4))} errors;`,
    `a port was open for ${durationText(openFor)}.`,
  ].join(' ');
}

/** An axis of a single point has no length. */
const LEAST_SPAN_S = 60;

/** From the first to the last of a chart's times, in seconds. */
export function timeRange(times: ArrayLike<number>): [from: number, to: number] {
  const to = times[times.length - 1] ?? 0;
  return [Math.min(times[0] ?? 0, to - LEAST_SPAN_S), to];
}
