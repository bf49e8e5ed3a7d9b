/** How the line has been doing: what went through it, what was dropped, what went wrong; and the machine itself. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import type { HostFacts, LineHistory, LineStatus } from '../../../shared/gen/http.ts';
import {
  columnsOf,
  countText,
  durationText,
  historyText,
  percentText,
  sizeText,
  timeRange,
  timeText,
  wordsOf,
} from '../../format.ts';
import { AlertList } from '../alert-list.tsx';
import { useLine } from '../line-status.tsx';
import { useLoaded } from '../loading.ts';
import { Answer, type Fact, Facts, Heading, ProblemBox, Section, Select, useMedia } from '../parts.tsx';

// Lines over time, drawn by uPlot on a canvas. The words beside it say the same for those who do not see it.

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
/** A single point makes no line. */
const FEW_POINTS = 3;
/** Steps of the axis: counts are whole numbers. */
const whole = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((one) => one * 10 ** power)).flat();

function Plot({ title, times, series, text }: Props): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot>(undefined);
  // A canvas keeps the colours that it was drawn with.
  const scheme = `${useMedia('(prefers-color-scheme: dark)')} ${useMedia('(prefers-contrast: more)')}`;
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
      // Not uPlot's own limits: for a single point they are a day apart.
      x: { range: ({ data: [times] }) => timeRange(times) },
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

/** Room for the longest number of the axis, and for half of the time below its foot: a number truncated at its left reads as another number. */
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

const EVERY_MS = 10_000;
const spans = [
  ['900', '15 minutes'],
  ['3600', '1 hour'],
  ['21600', '6 hours'],
] as const;

export function HealthView(): JSX.Element {
  const line = useLine();
  return (
    <>
      <Heading>Health</Heading>
      <AlertList />
      <HistoryPlots />
      <ProblemBox problem={line.problem} />
      {line.value !== undefined && <Figures status={line.value} isFresh={line.isFresh} />}
    </>
  );
}

function HistoryPlots(): JSX.Element {
  const [span, setSpan] = useState<(typeof spans)[number][0]>('3600');
  const history = useLoaded<LineHistory>('/api/v1/line/history', EVERY_MS);
  const spanS = Number(span);
  const data = useMemo(
    // The samples have an age; the reader's own clock places it on the axis.
    () => history.value && columnsOf(history.value, performance.timeOrigin / 1000 + performance.now() / 1000, spanS),
    [history.value, spanS],
  );
  return (
    <Section
      title="Over time"
      actions={<Select label="Show the last" value={span} options={spans} onChange={setSpan} />}
    >
      <ProblemBox problem={history.problem} />
      {history.value !== undefined && data !== undefined && (
        <>
          <p>{historyText(history.value, spanS)}</p>
          <Plot
            title="Throughput, bytes per second"
            times={data.times}
            series={[
              { label: 'received', color: '--rx', values: data.rx },
              { label: 'sent', color: '--tx', values: data.tx },
            ]}
            text={(value) => `${sizeText(value)}/s`}
          />
          <Plot
            title={`Errors, in each ${history.value.intervalS} s`}
            times={data.times}
            series={[{ label: 'errors', color: '--bad', values: data.errors }]}
            text={countText}
          />
        </>
      )}
    </Section>
  );
}

const sizesOf = new Set(['rxBytes', 'txBytes', 'rxDroppedBytes', 'rxBufferedBytes', 'txQueuedBytes']);
/** No fault: what no client fetches makes room for what comes, and the log has all of it. */
const names: Readonly<Record<string, string>> = {
  rxDroppedPackets: 'Not fetched by ReceivePacket, packets',
  rxDroppedBytes: 'Not fetched by ReceivePacket, bytes',
};
/** Anything above zero is worth a look. */
const faults = new Set(['txFailedPackets', 'losses', 'rxPauses']);
const kernelFaults = new Set(['frame', 'overrun', 'parity', 'bufOverrun']);

function countFacts(counts: Readonly<Record<string, number>>, bad: ReadonlySet<string>): Fact[] {
  return Object.entries(counts).map(([name, count]) => {
    const shown = sizesOf.has(name) ? sizeText(count) : countText(count);
    return [names[name] ?? wordsOf(name), shown, bad.has(name) && count > 0 ? 'bad' : undefined];
  });
}

function Figures({ status, isFresh }: { status: LineStatus; isFresh: boolean }): JSX.Element {
  const { log } = status;
  return (
    <div class="columns">
      <Section title="Counters">
        <p class="note">Since the service started, {durationText(status.uptimeMs / 1000)} ago.</p>
        <Facts of={countFacts(status.counters, faults)} />
      </Section>
      <Section title="Driver">
        {status.kernel === null ? (
          <p class="note">The driver has no counters, or no port is open.</p>
        ) : (
          <Facts of={countFacts(status.kernel, kernelFaults)} />
        )}
      </Section>
      <Section title="Log">
        {log.error !== '' && <p class="fault">{log.error}</p>}
        <Facts
          of={[
            [
              'State',
              log.state === 'ok' ? 'storing' : 'NOT storing',
              log.state !== 'ok' ? 'bad' : isFresh ? 'good' : undefined,
            ],
            ['Entries', log.lastId === 0 ? 'none' : `${countText(log.firstId)} to ${countText(log.lastId)}`],
            [
              'Used',
              `${sizeText(log.usedBytes)} of ${sizeText(log.maxBytes)} (${percentText((100 * log.usedBytes) / (log.maxBytes || 1))})`,
            ],
            ['Waiting to be stored', countText(log.pendingEntries)],
            ['Lost entries', countText(log.lostEntries), log.lostEntries > 0 ? 'bad' : undefined],
            ['Readers', countText(status.subscribers)],
            ['Clock', wordsOf(status.clock.state)],
            ['Version', status.version],
          ]}
        />
      </Section>
    </div>
  );
}

// The machine itself.

export function BoxView(): JSX.Element {
  const facts = useLoaded<HostFacts>('/api/v1/admin/host', EVERY_MS);
  return (
    <>
      <Heading>Box</Heading>
      <Answer of={facts}>
        {(value) => (
          <div class="columns">
            <FactsCard title="Power and heat" of={power(value)} />
            <FactsCard title="Memory and load" of={memory(value)} />
            <FactsCard title="Card" of={disk(value)} />
            {value.slot !== null && <FactsCard title="System" of={slot(value.slot)} />}
          </div>
        )}
      </Answer>
    </>
  );
}

function FactsCard({ title, of }: { title: string; of: readonly Fact[] }): JSX.Element {
  return (
    <Section title={title}>
      <Facts of={of} />
    </Section>
  );
}

/** "unknown" is not "no": neither good nor bad. */
const worryIf = (is: boolean): 'bad' | undefined => (is ? 'bad' : undefined);

function power({ temperatureCelsius, throttled, underVoltage, uptimeSeconds, clock, boots }: HostFacts): Fact[] {
  return [
    ['Temperature', temperatureCelsius === null ? 'unknown' : `${temperatureCelsius.toFixed(1)} °C`],
    ['Voltage too low', underVoltage, worryIf(underVoltage === 'yes')],
    ['Throttled', throttled, worryIf(throttled === 'yes')],
    ['Running for', durationText(uptimeSeconds)],
    ['Clock', clock, worryIf(clock === 'unsynced')],
    ['Boots', countText(boots.count)],
    ['Power failures', countText(boots.powerLosses), worryIf(boots.afterPowerLoss)],
  ];
}

function memory({ memory: { totalBytes, availableBytes }, load }: HostFacts): Fact[] {
  return [
    ['Memory', sizeText(totalBytes)],
    ['Available', sizeText(availableBytes)],
    ['Processors', `${countText(load.processors)}, ${percentText(load.usedPercent)} used`],
    ['Load', load.averages.map((one) => one.toFixed(2)).join('  ')],
  ];
}

function disk({ disk: of }: HostFacts): Fact[] {
  return [
    ['Size', sizeText(of.totalBytes)],
    ['Free', sizeText(of.freeBytes)],
    ['Written since the start', sizeText(of.writtenBytes)],
    ['Written ever', sizeText(of.writtenBytesEver)],
    ['Card wear', percentText(of.lifeUsedPercent)],
    ['Spare blocks', of.reserve, worryIf(of.reserve === 'warning' || of.reserve === 'urgent')],
  ];
}

function slot({ name, trying, dataLost, updateFailed }: NonNullable<HostFacts['slot']>): Fact[] {
  return [
    ['Slot', name],
    ['On trial', trying ? 'yes: not yet known to work' : 'no'],
    ['Data', dataLost ? 'LOST: all is in memory only' : 'on the card', worryIf(dataLost)],
    ['Last update', updateFailed ? 'failed: the box went back' : 'no failure', worryIf(updateFailed)],
  ];
}
