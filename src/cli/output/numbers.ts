/** Numbers, times and durations as people type and read them. 64-bit numbers stay exact. Pure. */
import Long from 'long';
import * as formats from '../../shared/log-formats/log-formats.ts';

type Exact = formats.Exact;

import { usageFailure } from '../failure.ts';

export type Uint64 = Exact | Long;

const two32 = 2 ** 32;
/** The high word of 2^53: below it a 64-bit number is exact as a number. */
const safeHigh = 2 ** 21;

/** A number where it is exact, else the digits as a string: what JSON can carry without loss. */
export function exact(value: Uint64): Exact {
  if (typeof value !== 'object') return value;
  const high = value.high >>> 0;
  return high < safeHigh ? high * two32 + (value.low >>> 0) : value.toUnsigned().toString();
}

/** Digits in groups of three: 1,234,567. */
export function grouped(value: Uint64): string {
  return formats.grouped(exact(value));
}

/** "1 entry", "1,234 entries". */
export function counted(value: Uint64, one: string, many = `${one}s`): string {
  return formats.counted(exact(value), one, many);
}

/** Bytes for people: exact below 10 kB, then three digits. */
export function byteSize(value: Uint64): string {
  let amount = Number(exact(value));
  if (amount < 10_000) return `${grouped(value)} B`;
  for (const unit of ['kB', 'MB', 'GB', 'TB']) {
    amount /= 1000;
    if (amount < 1000 || unit === 'TB') return `${amount.toFixed(amount < 100 ? 1 : 0)} ${unit}`;
  }
  return '';
}

/** 250 ms, 12 s, 3 min 5 s, 2 h 7 min, 4 d 3 h. */
export function spanText(value: Uint64): string {
  const ms = Number(exact(value));
  if (ms < 1000) return `${ms} ms`;
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

const maxUint64 = 18_446_744_073_709_551_615n;

export function parseUint64(text: string): Long {
  if (!/^\d{1,20}$/.test(text) || BigInt(text) > maxUint64) {
    throw usageFailure(`"${text}" is not a whole number from 0 to ${maxUint64}`);
  }
  return Long.fromString(text, true);
}

/** A parser of whole numbers in a range, for commander. */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < least || value > most) {
      throw usageFailure(`"${text}" is not a whole number from ${least} to ${most}`);
    }
    return value;
  };
}

/** A parser of seconds, fractions allowed, answering milliseconds. */
export function secondsAsMs(mostSeconds: number, leastSeconds = 0): (text: string) => number {
  return (text) => {
    const value = Number(text);
    if (!/^\d+(\.\d+)?$/.test(text) || value > mostSeconds || value < leastSeconds) {
      throw usageFailure(`"${text}" is not a number of seconds from ${leastSeconds} to ${mostSeconds}`);
    }
    return Math.round(value * 1000);
  };
}

const unitMs: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
const rfc3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)$/;

/** RFC 3339 with an offset, or an age before now: 30s, 10m, 2h, 7d. Answers milliseconds since the epoch. */
export function parseWhen(text: string, nowMs: number): number {
  const age = /^(\d+)([smhd])$/.exec(text);
  if (age !== null) return Math.max(0, nowMs - Number(age[1]) * (unitMs[age[2] ?? ''] ?? 0));
  const at = rfc3339.test(text) ? Date.parse(text.replace(' ', 'T').toUpperCase()) : Number.NaN;
  if (Number.isNaN(at) || at < 0) {
    throw usageFailure(
      `"${text}" is not a time`,
      'Write RFC 3339 (2026-01-31T12:00:00+01:00) or an age (30s, 10m, 2h, 7d).',
    );
  }
  return at;
}

/** The last millisecond that a Date can hold. */
const lastDateMs = 8_640_000_000_000_000;

/** Local date (2026-01-31) and time (12:00:00.123); a stamp no calendar holds is shown as its number. */
export function localTime(value: Uint64) {
  const ms = Number(exact(value));
  if (ms > lastDateMs - 86_400_000) return { date: '', time: `${exact(value)} ms` };
  const iso = new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString();
  const split = iso.indexOf('T');
  return { date: iso.slice(0, split), time: iso.slice(split + 1, -1) };
}
