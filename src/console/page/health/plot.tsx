/** Lines over time, drawn by uPlot on a canvas. The words beside it say the same for those who do not see it. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { type Chart, type Mark, momentText, timeLabels } from '../../history.ts';
import { useMedia } from '../parts.tsx';

interface Props {
  readonly chart: Chart;
  /** Unix seconds. */
  readonly times: readonly number[];
  readonly range: readonly [from: number, until: number];
  readonly marks: readonly Mark[];
  /** A part of the time was selected, Unix seconds. */
  readonly onZoom: (from: number, until: number) => void;
  readonly onWhole: () => void;
}

const HEIGHT_PX = 160;
/** A shorter movement is a click. */
const LEAST_DRAG_PX = 5;
/** Ticks of an axis, and the gap to its numbers: uPlot's own sizes. */
const TICKS_PX = 15;
/** Ticks and one line of times. */
const TIMES_PX = 32;
/** As wide as the usual longest number of any axis: charts below each other begin at one edge. */
const USUAL_LONGEST = '512.0 MiB/s';
const FONT = '12px system-ui, sans-serif';
const steps = {
  whole: { incrs: Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** power)).flat() },
  size: { incrs: Array.from({ length: 50 }, (_, power) => 2 ** power) },
  /** uPlot's own. */
  any: {},
};
/** A temperature that does not change is drawn in the middle. */
const LEAST_RANGE = 5;

export function Plot(props: Props): JSX.Element {
  const { chart, times, marks } = props;
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  // A canvas keeps the colours that it was drawn with.
  const scheme = `${useMedia('(prefers-color-scheme: dark)')} ${useMedia('(prefers-contrast: more)')}`;
  const [at, setAt] = useState<number | null>(null);
  const latest = useRef(props);
  latest.current = props;
  const data = [times, ...chart.series.map(({ values }) => values)] as uPlot.AlignedData;

  useEffect(() => {
    const box = place.current;
    if (box === null) return undefined;
    const drawn = new uPlot(
      optionsOf(() => latest.current, box.clientWidth, setAt),
      data,
      box,
    );
    plot.current = drawn;
    const observer = new ResizeObserver(() => drawn.setSize({ width: box.clientWidth, height: HEIGHT_PX }));
    observer.observe(box);
    return () => {
      observer.disconnect();
      drawn.destroy();
      plot.current = undefined;
    };
  }, [scheme]);
  useEffect(() => plot.current?.setData(data), [times, chart, marks]);

  const time = at === null ? undefined : times[at];
  return (
    <figure class="plot" data-points={times.length}>
      <figcaption>
        <span>{chart.title}</span>
        <span class="legend">
          {chart.series.map(({ label, color, values }) => {
            const value = at === null ? undefined : values[at];
            return (
              <span key={label}>
                <i class={`swatch ${color.slice(2)}`} /> {label}
                {value !== undefined && value !== null && ` ${chart.format(value)}`}
              </span>
            );
          })}
          {time !== undefined && <span>{momentText(time * 1_000)}</span>}
        </span>
      </figcaption>
      <div ref={place} class="canvas" aria-hidden="true" />
    </figure>
  );
}

function optionsOf(latest: () => Props, width: number, onAt: (at: number | null) => void): uPlot.Options {
  const { chart } = latest();
  const [ink, grid] = [colorOf('--soft'), colorOf('--line')];
  const axis = { stroke: ink, font: FONT, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
  const valueAxis = {
    ...axis,
    size: widthOf,
    values: (_plot: uPlot, splits: number[]) => splits.map((value) => latest().chart.format(value)),
  };
  return {
    width,
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: {
      drag: { x: true, y: false, setScale: false, dist: LEAST_DRAG_PX },
      bind: {
        dblclick: () => () => {
          latest().onWhole();
          return null;
        },
      },
    },
    scales: {
      // The whole span, whatever part of it has values: not uPlot's own limits, which are a day apart for a single point.
      x: { range: () => [...latest().range] as [number, number] },
      y: { range: (_plot, min, max) => valueRange(latest().chart, min, max) },
    },
    axes: [
      { ...axis, space: 70, size: TIMES_PX, values: (_plot, splits) => timeLabels(splits) },
      { ...valueAxis, ...steps[chart.steps] },
    ],
    series: [
      {},
      ...chart.series.map(({ label, color }) => ({
        label,
        stroke: colorOf(color),
        width: 2,
        points: { filter: lonePoints },
        spanGaps: false,
      })),
    ],
    hooks: {
      setCursor: [(plot) => onAt(plot.cursor.idx ?? null)],
      setSelect: [(plot) => select(plot, latest().onZoom)],
      drawAxes: [(plot) => drawMarks(plot, latest().marks)],
    },
  };
}

function select(plot: uPlot, onZoom: Props['onZoom']): void {
  const { left, width } = plot.select;
  if (width < LEAST_DRAG_PX) return;
  onZoom(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x'));
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
}

/** Below the lines of the values. */
function drawMarks(plot: uPlot, marks: readonly Mark[]): void {
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const { atMs, color } of marks) {
    const x = plot.valToPos(atMs / 1_000, 'x', true);
    ctx.strokeStyle = colorOf(color);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}

function valueRange({ isFromZero }: Chart, min: number | null, max: number | null): [number, number] {
  if (isFromZero) return [0, Math.max(1, (max ?? 0) * 1.1)];
  const [low, high] = [min ?? 0, max ?? 0];
  const room = Math.max(LEAST_RANGE - (high - low), 1) / 2;
  return [Math.floor(low - room), Math.ceil(high + room)];
}

/** A point between two without a value makes no line. */
function lonePoints({ data }: uPlot, series: number, isShown: boolean): number[] | null {
  if (isShown) return null;
  const values = data[series] ?? [];
  const isKnown = (at: number): boolean => values[at] !== null && values[at] !== undefined;
  return [...values.keys()].filter((at) => isKnown(at) && !isKnown(at - 1) && !isKnown(at + 1));
}

/** Room for the longest number of the axis: a number truncated at its left reads as another number. Half of the time below its foot is shorter. */
function widthOf({ ctx }: uPlot, values: readonly string[] | null): number {
  ctx.save();
  ctx.font = FONT;
  const longest = Math.max(...[USUAL_LONGEST, ...(values ?? [])].map((value) => ctx.measureText(value).width));
  ctx.restore();
  return Math.ceil(longest + TICKS_PX);
}

function colorOf(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
