/** The entries of the log over a span of time: bars, of which each can be chosen, and the same in words and as a table. */
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { LogHistogram } from '../../../shared/gen/http.ts';
import { countText, secondText, sizeText } from '../../format.ts';
import { BARS, type Bar, barsOf, barText, spanOf, summaryOf } from '../../line/histogram.ts';
import { text } from '../../text.ts';
import { withQuery } from '../../views.ts';
import { useLoaded } from '../loading.ts';
import { Button, ProblemBox } from '../parts.tsx';
import { type Column, Table } from '../table.tsx';

const words = text.log.histogram;
/** No request for each digit that is typed. */
const TYPED_MS = 400;

interface Span {
  /** 0: from the oldest entry. */
  readonly fromMs: number;
  /** 0: to the newest. */
  readonly toMs: number;
}

export function Histogram({ fromMs, toMs, onChoose }: Span & { onChoose: (span: Span) => void }): JSX.Element {
  const made = useHistogram(fromMs, toMs);
  const bars = useMemo(() => (made.value === undefined ? [] : barsOf(made.value)), [made.value]);
  return (
    <>
      <ProblemBox problem={made.problem} />
      <figure class="histogram">
        <Bars of={bars} onChoose={(bar) => onChoose(spanOf(bar))} />
        <figcaption class="note">
          <i class="swatch rx" /> {words.received} <i class="swatch tx" /> {words.sent}
          <br />
          {made.value === undefined ? text.parts.loading : summaryOf(made.value, bars)}
        </figcaption>
        <div class="row">
          <Values of={bars} onChoose={(bar) => onChoose(spanOf(bar))} />
          {(fromMs > 0 || toMs > 0) && (
            <Button text={words.whole} class="quiet" onClick={() => onChoose({ fromMs: 0, toMs: 0 })} />
          )}
        </div>
      </figure>
    </>
  );
}

/** The one before stays until the next is there, so that the dialog does not jump. */
function useHistogram(fromMs: number, toMs: number) {
  const [asked, ask] = useState({ fromMs, toMs });
  useEffect(() => {
    const timer = setTimeout(() => ask({ fromMs, toMs }), TYPED_MS);
    return () => clearTimeout(timer);
  }, [fromMs, toMs]);
  const isSpan = asked.toMs === 0 || asked.fromMs < asked.toMs;
  const query = { sinceMs: timeOf(asked.fromMs), untilMs: timeOf(asked.toMs), buckets: String(BARS) };
  const { value, problem } = useLoaded<LogHistogram>(isSpan ? withQuery('/api/v1/line/log/histogram', query) : '', 0);
  const before = useRef<LogHistogram>(undefined);
  before.current = value ?? before.current;
  return { value: before.current, problem };
}

function timeOf(ms: number): string {
  return ms === 0 ? '' : String(ms);
}

/** Who does not see them or has no mouse has the table. */
function Bars({ of, onChoose }: { of: readonly Bar[]; onChoose: (bar: Bar) => void }): JSX.Element {
  return (
    <svg class="bars" viewBox={`0 0 ${BARS} 100`} preserveAspectRatio="none" aria-hidden="true">
      {of.map((bar, at) => (
        <g key={bar.fromMs} onClick={() => onChoose(bar)}>
          <title>{barText(bar)}</title>
          <rect x={at} width="1" height="100" />
          <rect class="rx" x={at + 0.05} width="0.9" y={100 - bar.rxHeight} height={bar.rxHeight} />
          <rect class="tx" x={at + 0.05} width="0.9" y={100 - bar.rxHeight - bar.txHeight} height={bar.txHeight} />
        </g>
      ))}
    </svg>
  );
}

/** Made only while it is open. */
function Values({ of, onChoose }: { of: readonly Bar[]; onChoose: (bar: Bar) => void }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const columns: readonly Column<Bar>[] = [
    {
      head: words.from,
      isName: true,
      cell: (bar) => <Button text={secondText(bar.fromMs)} class="quiet" onClick={() => onChoose(bar)} />,
    },
    { head: words.received, isNumber: true, cell: ({ rx }) => countText(rx) },
    { head: words.sent, isNumber: true, cell: ({ tx }) => countText(tx) },
    { head: words.bytes, isNumber: true, cell: ({ bytes }) => sizeText(bytes) },
  ];
  return (
    <details class="values" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{words.asTable}</summary>
      {isOpen && (
        <Table
          of={{
            items: of.filter(({ rx, tx }) => rx + tx > 0),
            hasMore: false,
            problem: undefined,
            more: () => undefined,
          }}
          caption={words.table}
          columns={columns}
          idOf={({ fromMs }) => String(fromMs)}
          none={words.none}
        />
      )}
    </details>
  );
}
