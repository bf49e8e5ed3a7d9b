/**
 * The minutes of an hour as bytes, the body of a row of history.db. Pure.
 *
 * The first byte is the format, the second the number of minutes; then the columns follow in the order of `columns`. A column is a
 * list of variable-length integers (7 bits a byte, lowest first; the highest bit: more follow): the zigzag difference from the minute
 * before, and after a difference of 0 the number of further minutes without one. A column that never changes takes three bytes.
 */

/** New ones are appended: a row of before has fewer, and they read as 0. */
export const columns = [
  /** Seconds in which the hub ran; 0: nothing is known of the minute. */
  'upS',
  /** Seconds in which the line answered. */
  'lineS',
  /** Seconds in which the port was open. */
  'portOpenS',
  'rxBytes',
  'txBytes',
  'rxDroppedPackets',
  'errors',
  'reconnects',
  /** Tenths of a kelvin, which are never below 1; 0: unknown. */
  'temperatureDeciKelvin',
  /** Of the minute plus 1; 0: unknown. */
  'cardWrittenBytesPlus1',
] as const;

export type Column = (typeof columns)[number];
/** For each column the values of consecutive minutes. */
export type Minutes = Readonly<Record<Column, number[]>>;

export const MINUTES_OF_ROW = 60;
const FORMAT = 1;

export function noMinutes(): Minutes {
  return Object.fromEntries(columns.map((name) => [name, []])) as unknown as Minutes;
}

/** Values are rounded to whole numbers; they are from 0 to 2^51. */
export function packMinutes(minutes: Minutes): Buffer {
  const bytes = [FORMAT, minutes.upS.length];
  for (const name of columns) packColumn(bytes, minutes[name]);
  return Buffer.from(bytes);
}

function packColumn(bytes: number[], values: readonly number[]): void {
  let before = 0;
  for (let at = 0; at < values.length; at += 1) {
    const value = Math.round(values[at] ?? 0);
    const difference = value - before;
    putVarint(bytes, difference < 0 ? -2 * difference - 1 : 2 * difference);
    before = value;
    if (difference !== 0) continue;
    const first = at;
    while (at + 1 < values.length && Math.round(values[at + 1] ?? 0) === value) at += 1;
    putVarint(bytes, at - first);
  }
}

/** Above 32 bits JavaScript's bit operators cut a number off. */
function putVarint(bytes: number[], value: number): void {
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) + 0x80);
  bytes.push(rest);
}

/** Throws RangeError for bytes that packMinutes did not write. */
export function unpackMinutes(bytes: Uint8Array): Minutes {
  const [format, count = 0] = bytes;
  if (format !== FORMAT || count > MINUTES_OF_ROW) throw new RangeError(`minutes of the unknown format ${format}`);
  const minutes = noMinutes();
  let at = 2;
  const next = (): number => {
    let value = 0;
    for (let factor = 1; ; factor *= 0x80) {
      const byte = bytes[at];
      at += 1;
      if (byte === undefined || factor > Number.MAX_SAFE_INTEGER) throw new RangeError('minutes that are cut off');
      value += (byte % 0x80) * factor;
      if (byte < 0x80) return value;
    }
  };
  for (const name of columns) {
    const values = minutes[name];
    if (at === bytes.length) values.push(...Array<number>(count).fill(0));
    else unpackColumn(values, count, next);
  }
  return minutes;
}

function unpackColumn(values: number[], count: number, next: () => number): void {
  let value = 0;
  while (values.length < count) {
    const zigzag = next();
    value += zigzag % 2 === 1 ? -(zigzag + 1) / 2 : zigzag / 2;
    const times = zigzag === 0 ? next() + 1 : 1;
    if (values.length + times > count) throw new RangeError('more minutes than the row has');
    for (let n = 0; n < times; n += 1) values.push(value);
  }
}
