/** The stored minutes as values at equal steps of the wall clock, and the times of which nothing is known. Pure. */
import type { ClockState } from '../../shared/host/clock-sync.ts';
import type { HourHead } from './history-file.ts';
import type { Column, Minutes } from './minutes.ts';

export const MINUTE_MS = 60_000;

/** Where the hours of a boot are on the wall clock. */
export interface Placement {
  readonly offsetMs: number;
  readonly clock: ClockState;
}

/**
 * By boot: the last time that the clock was known to be right, otherwise the last time. A clock that is corrected later so places
 * the hours before it right.
 */
export function placements(heads: Iterable<HourHead>): Map<string, Placement> {
  const found = new Map<string, Placement>();
  for (const { boot, offsetMs, clock } of heads) {
    if (clock === 'synced' || found.get(boot)?.clock !== 'synced') found.set(boot, { offsetMs, clock });
  }
  return found;
}

/** Steps that people read: minutes, hours, days. */
const usualStepsS = [60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400];
/** Without a step of its own a span is answered in at most so many: more than a chart has room for. */
const USUAL_POINTS = 400;

export function usualStepS(spanMs: number): number {
  return usualStepsS.find((stepS) => spanMs / (stepS * 1_000) <= USUAL_POINTS) ?? 86_400;
}

export interface Span {
  /** A multiple of the step. */
  readonly fromMs: number;
  readonly stepMs: number;
  readonly points: number;
}

/** Steps begin at multiples of their length, so that a chart that moves on shows the same values. */
export function spanOf(sinceMs: number, untilMs: number, stepMs: number): Span {
  const fromMs = Math.floor(sinceMs / stepMs) * stepMs;
  return { fromMs, stepMs, points: Math.max(0, Math.ceil((untilMs - fromMs) / stepMs)) };
}

type Values = readonly (number | null)[];

export interface Series {
  readonly upS: readonly number[];
  readonly lineS: Values;
  readonly portOpenS: Values;
  readonly rxBytes: Values;
  readonly txBytes: Values;
  readonly rxDroppedPackets: Values;
  readonly errors: Values;
  readonly reconnects: Values;
  readonly temperatureMinCelsius: Values;
  readonly temperatureMeanCelsius: Values;
  readonly temperatureMaxCelsius: Values;
  readonly cardWrittenBytes: Values;
}

const summed = [
  'upS',
  'lineS',
  'portOpenS',
  'rxBytes',
  'txBytes',
  'rxDroppedPackets',
  'errors',
  'reconnects',
] as const satisfies readonly Column[];
type Summed = (typeof summed)[number];

/** Sums, and the least, mean and greatest temperature, of each step. */
export class SeriesSums {
  readonly #span: Span;
  readonly #sums: Readonly<Record<Summed, Float64Array>>;
  readonly #card: Means;
  readonly #heat: Means;

  constructor(span: Span) {
    this.#span = span;
    const zeros = (): Float64Array => new Float64Array(span.points);
    this.#sums = Object.fromEntries(summed.map((name) => [name, zeros()])) as Record<Summed, Float64Array>;
    this.#card = new Means(span.points);
    this.#heat = new Means(span.points);
  }

  /** `startMs`: of the first minute, on the wall clock. A minute belongs to the step in which it begins. */
  add(minutes: Minutes, startMs: number): void {
    const { fromMs, stepMs, points } = this.#span;
    const { length } = minutes.upS;
    const stepOf = (at: number): number => Math.floor((startMs + at * MINUTE_MS - fromMs) / stepMs);
    // The minutes of one step after another: an answer for 30 days sums 400,000 values, and the hub does nothing else meanwhile.
    for (let from = 0, to = 0; from < length; from = to) {
      const step = stepOf(from);
      while (to < length && stepOf(to) === step) to += 1;
      if (step >= 0 && step < points) this.#addStep(step, minutes, from, to);
    }
  }

  #addStep(step: number, minutes: Minutes, from: number, to: number): void {
    for (const name of summed) {
      const sums = this.#sums[name];
      const values = minutes[name];
      let sum = sums[step] ?? 0;
      for (let at = from; at < to; at += 1) sum += values[at] ?? 0;
      sums[step] = sum;
    }
    const { temperatureDeciKelvin: heats, cardWrittenBytesPlus1: cards } = minutes;
    for (let at = from; at < to; at += 1) {
      const heat = heats[at] ?? 0;
      const card = cards[at] ?? 0;
      if (heat > 0) this.#heat.add(step, heat / 10 - ZERO_CELSIUS);
      if (card > 0) this.#card.add(step, card - 1);
    }
  }

  end(): Series {
    const { upS, lineS } = this.#sums;
    // Unknown while the line did not answer.
    const ofLine = (name: Summed): Values =>
      Array.from(this.#sums[name], (sum, at) => (lineS[at] ? tenths(sum) : null));
    return {
      upS: Array.from(upS, tenths),
      portOpenS: ofLine('portOpenS'),
      rxBytes: ofLine('rxBytes'),
      txBytes: ofLine('txBytes'),
      rxDroppedPackets: ofLine('rxDroppedPackets'),
      errors: ofLine('errors'),
      reconnects: ofLine('reconnects'),
      lineS: Array.from(lineS, (sum, at) => (upS[at] ? tenths(sum) : null)),
      temperatureMinCelsius: this.#heat.values('least'),
      temperatureMeanCelsius: this.#heat.values('mean'),
      temperatureMaxCelsius: this.#heat.values('greatest'),
      cardWrittenBytes: this.#card.values('sum'),
    };
  }
}

/** Not 273.15: tenths of a degree stay what they were. */
const ZERO_CELSIUS = 273.1;
export const deciKelvin = (celsius: number): number => Math.max(1, Math.round((celsius + ZERO_CELSIUS) * 10));

function tenths(value: number): number {
  return Math.round(value * 10) / 10;
}

class Means {
  readonly #count: Uint32Array;
  readonly #figures: Readonly<Record<'sum' | 'least' | 'greatest', Float64Array>>;

  constructor(points: number) {
    this.#count = new Uint32Array(points);
    const least = new Float64Array(points).fill(Number.POSITIVE_INFINITY);
    const greatest = new Float64Array(points).fill(Number.NEGATIVE_INFINITY);
    this.#figures = { sum: new Float64Array(points), least, greatest };
  }

  add(at: number, value: number): void {
    const { sum, least, greatest } = this.#figures;
    this.#count[at] = (this.#count[at] ?? 0) + 1;
    sum[at] = (sum[at] ?? 0) + value;
    least[at] = Math.min(least[at] ?? value, value);
    greatest[at] = Math.max(greatest[at] ?? value, value);
  }

  /** null: there was no value. */
  values(which: 'sum' | 'least' | 'greatest' | 'mean'): (number | null)[] {
    const { sum } = this.#figures;
    return Array.from(this.#count, (count, at) => {
      if (count === 0) return null;
      const found = which === 'mean' ? (sum[at] ?? 0) / count : this.#figures[which][at];
      return tenths(found ?? 0);
    });
  }
}

export const gapReasons = ['boxOff', 'serviceStopped'] as const;

/** A time of which nothing is known, between two of which something is. */
export interface Gap {
  readonly fromMs: number;
  readonly untilMs: number;
  /** boxOff: another boot follows; serviceStopped: the same boot. */
  readonly reason: (typeof gapReasons)[number];
}

export interface Placed {
  readonly boot: string;
  readonly startMs: number;
  readonly endMs: number;
}

/** The hub starts within this after the box; a shorter gap within a boot is none. */
const LEAST_GAP_MS = 2 * MINUTE_MS;

/** `rows`: in the order in which they were written. */
export function gapsOf(rows: Iterable<Placed>): Gap[] {
  const gaps: Gap[] = [];
  let before: Placed | undefined;
  for (const row of rows) {
    if (before !== undefined && row.startMs - before.endMs >= LEAST_GAP_MS) {
      const reason = row.boot === before.boot ? 'serviceStopped' : 'boxOff';
      gaps.push({ fromMs: before.endMs, untilMs: row.startMs, reason });
    }
    before = row;
  }
  return gaps;
}
