/** The line's history as the columns of a plot, and in words. Pure. */
import type { LineHistory } from '../shared/gen/http.ts';
import { countText, durationText, sizeText } from './format.ts';

export interface Columns {
  /** Unix seconds, as the plot's axis wants them. */
  readonly times: number[];
  /** Bytes per second; null while no port was open, so that the line is broken there. */
  readonly rx: (number | null)[];
  readonly tx: (number | null)[];
  /** In the interval. */
  readonly errors: number[];
}

/** `nowS`: the reader's own clock, as the samples tell their age only. */
export function columnsOf({ intervalS, samples }: LineHistory, nowS: number, spanS: number): Columns {
  const columns: Columns = { times: [], rx: [], tx: [], errors: [] };
  for (const [ageS, rxBytes, txBytes, , errors, open] of samples) {
    if (ageS > spanS) continue;
    const silent = open === 0 && rxBytes === 0 && txBytes === 0;
    columns.times.push(nowS - ageS);
    columns.rx.push(silent ? null : rxBytes / intervalS);
    columns.tx.push(silent ? null : txBytes / intervalS);
    columns.errors.push(errors);
  }
  return columns;
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
