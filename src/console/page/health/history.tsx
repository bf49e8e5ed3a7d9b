/** Traffic and errors of the line, temperature and card writes of the box, over an hour to thirty days, or a part of that time. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { msOfLocalTime } from '../../../shared/base/instant.ts';
import type { LineHistory } from '../../../shared/gen/http.ts';
import { fieldText } from '../../format.ts';
import {
  type Chart,
  chartsOf,
  isEmpty,
  type Mark,
  marksOf,
  momentText,
  spans,
  spanText,
  summaryOf,
  timesOf,
  type ValueRow,
  valueRows,
  type Zoom,
  zoomIn,
  zoomTo,
} from '../../history.ts';
import { text } from '../../text.ts';
import { hashOf } from '../../views.ts';
import { useFilter } from '../address.ts';
import { useEvents } from '../line/log-model.ts';
import { useLoaded } from '../loading.ts';
import { Button, ProblemBox, Section, Select, TextField } from '../parts.tsx';
import { type Column, Table } from '../table.tsx';
import { Plot } from './plot.tsx';

const words = text.history;

/** The running minute is sampled so often. */
const EVERY_MS = 10_000;
/** Of other times: their points are minutes to hours apart, and an answer for 30 days is work for the box. */
const EVERY_OF_LONG_MS = 60_000;

export function History(): JSX.Element {
  const { typed, change } = useFilter(hashOf('health'), ['last', 'since', 'until']);
  const [last] = spans.find(([seconds]) => seconds === typed.last) ?? spans[0];
  const zoom = zoomIn(Number(typed.since), Number(typed.until));
  const show = (to: Zoom | undefined): void => change({ since: `${to?.sinceMs ?? ''}`, until: `${to?.untilMs ?? ''}` });
  const whole = (): void => show(undefined);
  const isZoomed = zoom !== undefined;
  const asked = isZoomed ? `sinceMs=${zoom.sinceMs}&untilMs=${zoom.untilMs}` : `lastS=${last}`;
  const isHour = !isZoomed && last === spans[0][0];
  const history = useLoaded<LineHistory>(`/api/v1/line/history?${asked}`, isHour ? EVERY_MS : EVERY_OF_LONG_MS);
  // The charts stay until those of another time are there, so that the page does not jump.
  const before = useRef<LineHistory>(undefined);
  before.current = history.value ?? before.current;
  const shown = before.current;
  // biome-ignore lint/correctness/useExhaustiveDependencies: "whole" does the same each time
  useEffect(() => {
    if (!isZoomed) return undefined;
    const look = ({ key }: KeyboardEvent): void => {
      if (key === 'Escape') whole();
    };
    addEventListener('keydown', look);
    return () => removeEventListener('keydown', look);
  }, [isZoomed]);
  return (
    <Section
      title={words.title}
      actions={
        <>
          {isZoomed && <Button text={words.whole} onClick={whole} />}
          <Select
            label={words.show}
            value={last}
            options={spans}
            onChange={(chosen) => change({ last: chosen, since: '', until: '' })}
          />
        </>
      }
    >
      <ProblemBox problem={history.problem} />
      {shown !== undefined && (
        <>
          <details>
            <summary>{words.select}</summary>
            <TimeForm asked={asked} time={zoom ?? lastOf(shown, Number(last))} onShow={show} />
          </details>
          <Charts of={shown} onZoom={show} onWhole={whole} />
        </>
      )}
    </Section>
  );
}

const timeInput = { type: 'datetime-local', max: '9999-12-31T23:59' } as const;
const minuteText = (ms: number): string => fieldText(ms).slice(0, 16);

const lastOf = ({ nowMs }: LineHistory, seconds: number): Zoom => ({
  sinceMs: nowMs - seconds * 1_000,
  untilMs: nowMs,
});

/** By keyboard, and where nothing can be dragged, a time is typed. `asked`: what is typed stays until this is another. */
function TimeForm(props: { asked: string; time: Zoom; onShow: (zoom: Zoom) => void }): JSX.Element {
  const { asked, time } = props;
  const [from, setFrom] = useState('');
  const [until, setUntil] = useState('');
  const [fault, setFault] = useState<'from' | 'until'>();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the time of a span that moves is another with each answer
  useEffect(() => {
    setFrom(minuteText(time.sinceMs));
    setUntil(minuteText(time.untilMs));
    setFault(undefined);
  }, [asked]);
  const submit = (event: Event): void => {
    event.preventDefault();
    const [fromMs, untilMs] = [msOfLocalTime(from), msOfLocalTime(until)];
    const zoom = zoomIn(fromMs, untilMs);
    setFault(!(fromMs > 0) ? 'from' : zoom === undefined ? 'until' : undefined);
    if (zoom !== undefined) props.onShow(zoomTo(zoom.sinceMs, zoom.untilMs));
  };
  return (
    <form class="times" onSubmit={submit} noValidate>
      <TextField
        label={words.from}
        fault={fault === 'from' ? words.fromFault : undefined}
        input={timeInput}
        value={from}
        onChange={setFrom}
      />
      <TextField
        label={words.until}
        fault={fault === 'until' ? words.untilFault : undefined}
        input={timeInput}
        value={until}
        onChange={setUntil}
      />
      <button type="submit">{words.showTime}</button>
      <p class="note">{words.hint}</p>
    </form>
  );
}

function Charts(props: { of: LineHistory; onZoom: (zoom: Zoom) => void; onWhole: () => void }): JSX.Element {
  const { of } = props;
  const charts = useMemo(() => chartsOf(of), [of]);
  const times = useMemo(() => timesOf(of), [of]);
  const events = useEvents();
  const marks = useMemo(() => marksOf(events, of), [events, of]);
  return (
    <>
      {of.fault !== '' && <p class="fault">{words.notStored(of.fault)}</p>}
      <p>{summaryOf(of)}</p>
      {!isEmpty(of) && (
        <>
          {charts.map((chart) => (
            <Plot
              key={chart.title}
              chart={chart}
              times={times}
              range={[of.fromMs / 1_000, of.untilMs / 1_000]}
              marks={marks}
              onZoom={(fromS, untilS) => props.onZoom(zoomTo(fromS * 1_000, untilS * 1_000))}
              onWhole={props.onWhole}
            />
          ))}
          <Values of={of} charts={charts} />
        </>
      )}
      <Marks of={marks} />
    </>
  );
}

/** The newest of them; a list that is longer is not read. */
const MAX_LISTED = 50;

function Marks({ of }: { of: readonly Mark[] }): JSX.Element {
  const listed = of.slice(-MAX_LISTED).reverse();
  return (
    <>
      <h3>{words.happened}</h3>
      {of.length === 0 && <p class="note">{words.nothingHappened}</p>}
      <ul class="plain happened">
        {listed.map(({ id, atMs, color, words: what }) => (
          <li key={id}>
            <i class={`swatch ${color.slice(2)}`} /> {momentText(atMs)} {what}
          </li>
        ))}
      </ul>
      {of.length > listed.length && <p class="note">{words.moreHappened(of.length - listed.length)}</p>}
    </>
  );
}

/** For those who do not see the charts; made only while it is open. */
function Values({ of, charts }: { of: LineHistory; charts: readonly Chart[] }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const columns: readonly Column<ValueRow>[] = [
    { head: words.time, cell: ({ time }) => time, isName: true },
    ...charts
      .flatMap(({ series }) => series)
      .map(
        ({ label, head = label }, at): Column<ValueRow> => ({ head, cell: ({ values }) => values[at], isNumber: true }),
      ),
  ];
  const items = useMemo(() => (isOpen ? valueRows(of, charts) : []), [isOpen, of, charts]);
  return (
    <details class="values" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{words.asTable}</summary>
      {isOpen && (
        <Table
          of={{ items, hasMore: false, problem: undefined, more: () => undefined }}
          caption={words.values(spanText(of))}
          columns={columns}
          idOf={({ time }) => time}
          none={words.noData}
        />
      )}
    </details>
  );
}
