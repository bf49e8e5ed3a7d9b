/** Lines over time, drawn by uPlot on a canvas. The words beside it say the same for those who do not see it. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { timeText } from '../format.ts';

interface Series {
  readonly label: string;
  /** Name of a colour in the style sheet. */
  readonly color: string;
  readonly values: readonly (number | null)[];
}

interface Props {
  readonly title: string;
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly text: (value: number) => string;
}

const HEIGHT_PX = 180;
/** Ticks of an axis, and the gap to its numbers: uPlot's own sizes. */
const TICKS_PX = 15;
const FONT = '12px system-ui, sans-serif';
/** An axis of a single point has no length. */
const LEAST_SPAN_S = 60;
/** A single point makes no line. */
const FEW_POINTS = 3;
/** Steps of the axis: what is counted here comes whole. */
const whole = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** power)).flat();

export function Plot({ title, times, series, text }: Props): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  const scheme = useScheme();
  const [at, setAt] = useState<number | null>(null);
  const data = [times, ...series.map(({ values }) => values)] as uPlot.AlignedData;

  useEffect(() => {
    const box = place.current;
    if (box === null) return undefined;
    const drawn = new uPlot(optionsOf(series, text, box.clientWidth, setAt), data, box);
    plot.current = drawn;
    const observer = new ResizeObserver(() => drawn.setSize({ width: box.clientWidth, height: HEIGHT_PX }));
    observer.observe(box);
    return () => {
      observer.disconnect();
      drawn.destroy();
      plot.current = undefined;
    };
  }, [scheme]);
  useEffect(() => plot.current?.setData(data), [times, series]);

  const time = at === null ? undefined : times[at];
  return (
    <figure class="plot" data-points={times.length}>
      <figcaption>
        <span>{title}</span>
        <span class="legend">
          {series.map(({ label, color, values }) => {
            const value = at === null ? undefined : values[at];
            return (
              <span key={label}>
                <i class={`swatch ${color.slice(2)}`} /> {label}
                {value !== undefined && value !== null && ` ${text(value)}`}
              </span>
            );
          })}
          {time !== undefined && <span>{timeText(time * 1000).slice(0, 8)}</span>}
        </span>
      </figcaption>
      <div ref={place} class="canvas" aria-hidden="true" />
    </figure>
  );
}

function optionsOf(
  series: readonly Series[],
  text: Props['text'],
  width: number,
  onAt: (at: number | null) => void,
): uPlot.Options {
  const [ink, grid] = [colorOf('--soft'), colorOf('--line')];
  const axis = { stroke: ink, font: FONT, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
  return {
    width,
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: {
      x: { range: (_plot, min, max) => [Math.min(min ?? 0, (max ?? 0) - LEAST_SPAN_S), max ?? 0] },
      y: { range: (_plot, _min, max) => [0, Math.max(1, max * 1.1)] },
    },
    axes: [
      // Hours and minutes the same everywhere: uPlot's own are American.
      {
        ...axis,
        space: 70,
        values: (_plot, splits) =>
          splits.map((second) => timeText(second * 1000).slice(0, tellsSeconds(splits) ? 8 : 5)),
      },
      { ...axis, size: widthOf, incrs: whole, values: (_plot, splits) => splits.map((value) => text(value)) },
    ],
    series: [
      {},
      ...series.map(({ label, color }) => ({
        label,
        stroke: colorOf(color),
        width: 2,
        points: { show: (_plot: uPlot, _series: number, from: number, to: number) => to - from < FEW_POINTS },
        spanGaps: false,
      })),
    ],
    hooks: { setCursor: [(plot) => onAt(plot.cursor.idx ?? null)] },
  };
}

/** Room for the longest number of the axis, and for half of the time below its foot: what is cut off at its left is another number. */
function widthOf({ ctx }: uPlot, values: readonly string[] | null): number {
  ctx.save();
  ctx.font = FONT;
  const longest = Math.max(0, ...(values ?? []).map((value) => ctx.measureText(value).width));
  const time = ctx.measureText('00:00:00').width;
  ctx.restore();
  return Math.ceil(Math.max(longest + TICKS_PX, time / 2));
}

/** Steps of less than a minute. */
function tellsSeconds([first = 0, second = 60]: readonly number[]): boolean {
  return second - first < 60;
}

function colorOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Changes when the colours do: a canvas keeps those it was drawn with. */
function useScheme(): string {
  const [scheme, setScheme] = useState('');
  useEffect(() => {
    const queries = ['(prefers-color-scheme: dark)', '(prefers-contrast: more)'].map((query) => matchMedia(query));
    const look = (): void => setScheme(queries.map(({ matches }) => matches).join(' '));
    for (const query of queries) query.addEventListener('change', look);
    return () => {
      for (const query of queries) query.removeEventListener('change', look);
    };
  }, []);
  return scheme;
}
