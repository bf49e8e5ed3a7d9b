/** Traffic and errors of the line, temperature and card writes of the box, over an hour to thirty days. */
import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import type { LineHistory } from '../../../shared/gen/http.ts';
import { chartsOf, isEmpty, spans, summaryOf, timesOf } from '../../history.ts';
import { text } from '../../text.ts';
import { useLoaded } from '../loading.ts';
import { ProblemBox, Section, Select } from '../parts.tsx';
import { Plot } from './plot.tsx';

/** The running minute is sampled so often. */
const EVERY_MS = 10_000;
/** Of a span above an hour: its points are minutes to hours apart, and an answer for 30 days is work for the box. */
const EVERY_OF_LONG_MS = 60_000;

export function History(): JSX.Element {
  const [span, setSpan] = useState<(typeof spans)[number][0]>('3600');
  const history = useLoaded<LineHistory>(
    `/api/v1/line/history?lastS=${span}`,
    span === '3600' ? EVERY_MS : EVERY_OF_LONG_MS,
  );
  return (
    <Section
      title={text.history.title}
      actions={<Select label={text.history.show} value={span} options={spans} onChange={setSpan} />}
    >
      <ProblemBox problem={history.problem} />
      {history.value !== undefined && <Charts of={history.value} />}
    </Section>
  );
}

function Charts({ of }: { of: LineHistory }): JSX.Element {
  const charts = useMemo(() => chartsOf(of), [of]);
  const times = useMemo(() => timesOf(of), [of]);
  return (
    <>
      {of.fault !== '' && <p class="fault">{text.history.notStored(of.fault)}</p>}
      <p>{summaryOf(of)}</p>
      {!isEmpty(of) &&
        charts.map((chart) => (
          <Plot
            key={chart.series[0]?.label}
            chart={chart}
            times={times}
            range={[of.fromMs / 1_000, of.untilMs / 1_000]}
          />
        ))}
    </>
  );
}
