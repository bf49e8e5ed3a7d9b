/** How many entries the log has over a span of time, as bars. Pure. */
import type { LogHistogram } from '../../shared/gen/http.ts';
import { countText, plural, secondText } from '../format.ts';
import { text } from '../text.ts';

const words = text.log.histogram;

export interface Bar {
  readonly fromMs: number;
  readonly untilMs: number;
  readonly rx: number;
  readonly tx: number;
  readonly bytes: number;
  /** Of the height of all, 0 to 100. */
  readonly rxHeight: number;
  readonly txHeight: number;
}

/** Each can be touched with a finger on a phone, nearly; and half an hour of a day. */
export const BARS = 48;
/** A single entry among thousands is seen. */
const LEAST_HEIGHT = 4;

export function barsOf({ sinceMs, untilMs, buckets }: LogHistogram): readonly Bar[] {
  const width = (untilMs - sinceMs) / buckets.length;
  const most = Math.max(1, ...buckets.map(({ rxEntries, txEntries }) => rxEntries + txEntries));
  const height = (entries: number): number => (entries === 0 ? 0 : Math.max(LEAST_HEIGHT, (100 * entries) / most));
  return buckets.map(({ rxEntries: rx, txEntries: tx, rxBytes, txBytes }, at) => {
    const rxHeight = height(rx);
    return {
      fromMs: sinceMs + at * width,
      untilMs: sinceMs + (at + 1) * width,
      rx,
      tx,
      bytes: rxBytes + txBytes,
      rxHeight,
      txHeight: Math.min(height(tx), 100 - rxHeight),
    };
  });
}

/** The seconds that a bar lies in: a field for a time has no milliseconds. */
export function spanOf({ fromMs, untilMs }: Bar): { readonly fromMs: number; readonly toMs: number } {
  return { fromMs: Math.floor(fromMs / 1_000) * 1_000, toMs: Math.ceil(untilMs / 1_000) * 1_000 };
}

export function barText({ fromMs, untilMs, rx, tx }: Bar): string {
  return words.bar(secondText(fromMs), secondText(untilMs), countText(rx), countText(tx));
}

export function summaryOf(made: LogHistogram, bars: readonly Bar[]): string {
  const sum = (count: (bar: Bar) => number): number => bars.reduce((all, bar) => all + count(bar), 0);
  const [rx, tx] = [sum((bar) => bar.rx), sum((bar) => bar.tx)];
  if (rx + tx === 0) return words.none;
  const most = bars.reduce((one, other) => (other.rx + other.tx > one.rx + one.tx ? other : one));
  return words.summary({
    entries: `${made.isEstimate ? words.about : ''}${plural(rx + tx, 'entry', 'entries')}`,
    from: secondText(made.sinceMs),
    until: secondText(made.untilMs),
    received: countText(rx),
    sent: countText(tx),
    most: countText(most.rx + most.tx),
    mostFrom: secondText(most.fromMs),
  });
}
