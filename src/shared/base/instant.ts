/**
 * Instants as the reference-data interface writes them: RFC 3339 in UTC with the numeric offset "+00:00", and six digits
 * of a second where it has any ("2026-03-01T09:30:00+00:00", "2026-03-01T09:30:00.250000+00:00"). In this one form they
 * sort as text in the order of time ("+" comes before "."), so SQLite compares them as they are stored. Pure.
 */
export type Instant = string;

/** validTo of a record that is open. */
export const FAR_FUTURE: Instant = '9999-12-31T23:59:59.999999+00:00';

const FORM = /^(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(?:[Zz]|([+-])((?:[01]\d|2[0-3]):[0-5]\d))$/;
const US_PER_MS = 1_000n;
const US_PER_S = 1_000_000n;
const MS_PER_MINUTE = 60_000;

/** Microseconds since the epoch, as text. */
export function instantOfUs(us: bigint): Instant {
  const fraction = ((us % US_PER_S) + US_PER_S) % US_PER_S;
  const seconds = new Date(Number((us - fraction) / US_PER_MS)).toISOString().slice(0, 19);
  return `${seconds}${fraction === 0n ? '' : `.${String(fraction).padStart(6, '0')}`}+00:00`;
}

export function instantOfMs(ms: number): Instant {
  return instantOfUs(BigInt(Math.round(ms * 1_000)));
}

/** For an instant in this file's form. */
export function usOfInstant(instant: Instant): bigint {
  const fraction = instant[19] === '.' ? BigInt(instant.slice(20, 26)) : 0n;
  return BigInt(Date.parse(`${instant.slice(0, 19)}Z`)) * US_PER_MS + fraction;
}

/** "2026-11-22T13:05:09" in the time zone of this machine, as Unix milliseconds; NaN: it is none. */
export function msOfLocalTime(text: string): number {
  return Date.parse(text);
}

/** Any RFC 3339 date-time of the years 0001 to 9999, with any offset, in this file's form; undefined: it is none. */
export function parseInstant(text: string): Instant | undefined {
  const parts = FORM.exec(text);
  if (parts === null) return undefined;
  const [, date = '', time = '', fraction = '', sign, offset] = parts;
  const local = Date.parse(`${date}T${time}Z`);
  // Date.parse takes 30 February for 2 March, and 24:00:00 for midnight.
  if (Number.isNaN(local) || new Date(local).toISOString().slice(0, 19) !== `${date}T${time}`) return undefined;
  const aheadMs = offset === undefined ? 0 : offsetMs(offset) * (sign === '-' ? -1 : 1);
  const us = (BigInt(local) - BigInt(aheadMs)) * US_PER_MS + BigInt(fraction.padEnd(6, '0'));
  return us < FIRST_US || us > usOfInstant(FAR_FUTURE) ? undefined : instantOfUs(us);
}

/** "05:30" */
function offsetMs(offset: string): number {
  return (Number(offset.slice(0, 2)) * 60 + Number(offset.slice(3))) * MS_PER_MINUTE;
}

const FIRST_US = usOfInstant('0001-01-01T00:00:00+00:00');

/** The wall clock's time, or a microsecond after `last` where that is not before it: strictly increasing whatever the clock does. */
export function instantAfter(last: Instant | undefined, wallMs: number): Instant {
  const wall = instantOfMs(wallMs);
  return last === undefined || wall > last ? wall : instantOfUs(usOfInstant(last) + 1n);
}

export function laterOf(a: Instant, b: Instant): Instant {
  return a > b ? a : b;
}

// Times of the log: milliseconds, which from 2^53 on are digits.

/** The last millisecond that a Date can hold, less the longest offset of a time zone. */
const LAST_LOCAL_MS = 8_640_000_000_000_000 - 86_400_000;

/** RFC 3339 in UTC, or null where no calendar holds it. */
export function utcTime(value: number | string): string | null {
  const ms = Number(value);
  return ms > LAST_LOCAL_MS + 86_400_000 ? null : new Date(ms).toISOString();
}

/** RFC 3339 in the time zone of this machine: "2026-11-27T13:05:09.120+01:00". */
export function zonedTime(value: number | string): string {
  const ms = Number(value);
  if (ms > LAST_LOCAL_MS) return `${value} ms`;
  const offset = -new Date(ms).getTimezoneOffset();
  const two = (part: number): string => String(part).padStart(2, '0');
  const away = `${offset < 0 ? '-' : '+'}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  return `${new Date(ms + offset * MS_PER_MINUTE).toISOString().slice(0, -1)}${away}`;
}
