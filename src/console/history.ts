/** The line's history as charts and in words. Pure. */
import type { LineHistory } from '../shared/gen/http.ts';
import { countText, dayText, durationText, fieldText, sizeText, timeText } from './format.ts';
import type { LineEvent } from './rows.ts';
import { text } from './text.ts';

const words = text.history;

/** Lengths of the span that moves with the clock, in seconds. */
export const spans = [
  ['3600', words.spans.hour],
  ['86400', words.spans.day],
  ['604800', words.spans.week],
  ['2592000', words.spans.month],
] as const;

/** A part of the time that was selected, Unix milliseconds. */
export interface Zoom {
  readonly sinceMs: number;
  readonly untilMs: number;
}

const MINUTE_MS = 60_000;
/** The values are of minutes: fewer of them are no line. */
const LEAST_ZOOM_MS = 5 * MINUTE_MS;
/** The box answers no more in steps of a day than these. */
const MAX_ZOOM_MS = 366 * 86_400_000;
const LAST_MS = 8.64e15;

/** Whole minutes around what was selected. */
export function zoomTo(fromMs: number, untilMs: number): Zoom {
  const middleMs = (fromMs + untilMs) / 2;
  const halfMs = Math.max(untilMs - fromMs, LEAST_ZOOM_MS) / 2;
  return {
    sinceMs: Math.floor((middleMs - halfMs) / MINUTE_MS) * MINUTE_MS,
    untilMs: Math.ceil((middleMs + halfMs) / MINUTE_MS) * MINUTE_MS,
  };
}

/** undefined: this is no time that the box would answer. */
export function zoomIn(sinceMs: number, untilMs: number): Zoom | undefined {
  if (!Number.isInteger(sinceMs) || !Number.isInteger(untilMs) || sinceMs < 1 || untilMs > LAST_MS) return undefined;
  return untilMs > sinceMs && untilMs - sinceMs <= MAX_ZOOM_MS ? { sinceMs, untilMs } : undefined;
}

interface ChartSeries {
  readonly label: string;
  /** In a table, where no title of a chart stands above; default: the label. */
  readonly head?: string;
  /** Name of a colour in the style sheet. */
  readonly color: string;
  readonly values: readonly (number | null)[];
}

export interface Chart {
  readonly title: string;
  readonly series: readonly ChartSeries[];
  /** A value with its unit. */
  readonly format: (value: number) => string;
  /** Of the axis: counts are whole numbers, and sizes have the powers of 2 of their units. */
  readonly steps: 'whole' | 'size' | 'any';
  /** A temperature has no natural zero. */
  readonly isFromZero: boolean;
}

const rateText = (value: number): string => `${sizeText(value)}/s`;
const degreesText = (value: number): string => `${Math.round(value * 10) / 10} °C`;

export function chartsOf(history: LineHistory): readonly Chart[] {
  const { rxBytes, txBytes, lineS, portOpenS, stepS } = history;
  const each = durationText(stepS).replace(/^1 /, '');
  // No line while no port was open.
  const rates = (bytes: readonly (number | null)[]): (number | null)[] =>
    bytes.map((sum, at) => {
      const isSilent = portOpenS[at] === 0 && rxBytes[at] === 0 && txBytes[at] === 0;
      return sum === null || isSilent ? null : sum / (lineS[at] || stepS);
    });
  const counts = { format: countText, steps: 'whole', isFromZero: true } as const;
  const amounts = { steps: 'size', isFromZero: true } as const;
  const all: readonly Chart[] = [
    {
      title: words.throughput,
      series: [
        { label: words.received, color: '--rx', values: rates(rxBytes) },
        { label: words.sent, color: '--tx', values: rates(txBytes) },
      ],
      ...amounts,
      format: rateText,
    },
    {
      title: words.errorsIn(each),
      series: [
        { label: words.errors, color: '--bad', values: history.errors },
        { label: words.portLost, color: '--warn', values: history.reconnects },
      ],
      ...counts,
    },
    {
      title: words.notFetchedIn(each),
      series: [{ label: words.notFetched, color: '--soft', values: history.rxDroppedPackets }],
      ...counts,
    },
    {
      title: words.temperature,
      series: [
        { label: words.highest, head: words.highestHead, color: '--bad', values: history.temperatureMaxCelsius },
        { label: words.mean, head: words.meanHead, color: '--warn', values: history.temperatureMeanCelsius },
        { label: words.lowest, head: words.lowestHead, color: '--rx', values: history.temperatureMinCelsius },
      ],
      format: degreesText,
      steps: 'any',
      isFromZero: false,
    },
    {
      title: words.cardIn(each),
      series: [{ label: words.card, head: words.cardHead, color: '--tx', values: history.cardWrittenBytes }],
      ...amounts,
      format: sizeText,
    },
  ];
  // What the box does not measure has no chart.
  return all.filter(({ series }) => series.some(({ values }) => values.some((value) => value !== null)));
}

/** The middle of each step in Unix seconds, as uPlot has them; of the running step, the middle of what there is. */
export function timesOf({ fromMs, untilMs, stepS, upS }: LineHistory): number[] {
  return upS.map((_, at) => {
    const beginMs = fromMs + at * stepS * 1_000;
    return (beginMs + Math.min(beginMs + stepS * 1_000, Math.max(untilMs, beginMs))) / 2_000;
  });
}

const sum = (values: readonly (number | null)[]): number => values.reduce<number>((all, one) => all + (one ?? 0), 0);
const known = (values: readonly (number | null)[]): number[] => values.filter((value) => value !== null);

/** The charts in words, or why there are none. */
export function summaryOf(history: LineHistory): string {
  if (isEmpty(history)) return emptyText(history);
  const { upS, temperatureMinCelsius, temperatureMaxCelsius } = history;
  const [low, high] = [known(temperatureMinCelsius), known(temperatureMaxCelsius)];
  return [
    words.summary({
      span: spanText(history),
      known: durationText(sum(upS)),
      received: sizeText(sum(history.rxBytes)),
      sent: sizeText(sum(history.txBytes)),
      errors: sum(history.errors),
      losses: sum(history.reconnects),
      open: durationText(sum(history.portOpenS)),
    }),
    ...(low.length > 0 ? [words.heat(degreesText(Math.min(...low)), degreesText(Math.max(...high)))] : []),
    ...history.gaps.slice(-MAX_GAPS_SAID).map(gapText),
    ...(history.isClockVerified ? [] : [words.unverified]),
  ].join(' ');
}

/** The others are seen in the charts. */
const MAX_GAPS_SAID = 3;

export function isEmpty({ upS }: LineHistory): boolean {
  return upS.every((seconds) => seconds === 0);
}

function emptyText({ firstMs, fromMs, untilMs, gaps }: LineHistory): string {
  if (firstMs === null) return words.none;
  const gap = gaps.find((one) => one.fromMs <= fromMs && one.untilMs >= untilMs);
  const why = gap !== undefined ? gapText(gap) : untilMs <= firstMs ? words.begins(momentText(firstMs)) : '';
  return [words.noData, why].filter((part) => part !== '').join(' ');
}

function gapText({ fromMs, untilMs, reason }: LineHistory['gaps'][number]): string {
  return words.gaps[reason](momentText(fromMs), momentText(untilMs));
}

export function spanText({ fromMs, untilMs }: LineHistory): string {
  return words.span(momentText(fromMs), momentText(untilMs));
}

/** "2026-11-22 13:05", in the reader's own time zone. */
export function momentText(ms: number): string {
  return fieldText(ms).replace('T', ' ').slice(0, 16);
}

const DAY_S = 86_400;

/** Labels of an axis of time: the day where one begins, otherwise hours and minutes. Seconds, as uPlot has them. */
export function timeLabels(splits: readonly number[]): string[] {
  const step = (splits[1] ?? 0) - (splits[0] ?? 0);
  return splits.map((second) => {
    const time = timeText(second * 1_000);
    const isDay = step >= DAY_S || time.startsWith('00:00:00');
    return isDay ? dayText(second * 1_000).slice(5) : time.slice(0, step < 60 ? 8 : 5);
  });
}

/** Colours of the events that explain a chart. */
const marks: Readonly<Partial<Record<LineEvent['kind'], string>>> = {
  opened: '--good',
  back: '--good',
  closed: '--soft',
  settingsChanged: '--soft',
  lost: '--bad',
};

export interface Mark {
  readonly id: number;
  readonly atMs: number;
  /** Name of a colour in the style sheet. */
  readonly color: string;
  readonly words: string;
}

/** Of the time that is shown, in the order in which they happened. */
export function marksOf(events: readonly LineEvent[], { fromMs, untilMs }: LineHistory): Mark[] {
  return events.flatMap((event) => {
    const { id, kind, timestampMs: atMs } = event;
    const color = marks[kind];
    return color === undefined || atMs < fromMs || atMs >= untilMs
      ? []
      : [{ id, atMs, color, words: text.log.event(event) }];
  });
}

export interface ValueRow {
  readonly time: string;
  /** As the series of the charts follow each other. */
  readonly values: readonly string[];
}

/** Each step of which something is known, the newest first. */
export function valueRows({ fromMs, stepS, upS }: LineHistory, charts: readonly Chart[]): ValueRow[] {
  const textAt = (at: number): string[] =>
    charts.flatMap(({ series, format }) =>
      series.map(({ values }) => {
        const value = values[at] ?? null;
        return value === null ? text.values.unknown : format(value);
      }),
    );
  return upS
    .map((seconds, at) =>
      seconds === 0 ? [] : [{ time: momentText(fromMs + at * stepS * 1_000), values: textAt(at) }],
    )
    .flat()
    .reverse();
}
