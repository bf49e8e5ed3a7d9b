/** How the line has been doing: what went through it, what was dropped, what went wrong. */
import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { countText, durationText, percentText, sizeText, wordsOf } from '../format.ts';
import { columnsOf, historyText } from '../plot-data.ts';
import type { History, LineStatus } from '../shapes.ts';
import { AlertList } from './alert-list.tsx';
import { useLine } from './line-status.tsx';
import { useLoaded } from './loading.ts';
import { type Fact, Facts, Heading, ProblemBox, Section, Select } from './parts.tsx';
import { Plot } from './plot.tsx';
import { useSession } from './session.ts';

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
  const { api } = useSession();
  const [span, setSpan] = useState<(typeof spans)[number][0]>('3600');
  const history = useLoaded('history', EVERY_MS, (signal) => api.get<History>('/api/v1/line/history', signal));
  const spanS = Number(span);
  const data = useMemo(
    // The samples tell their age; where on the axis that is, the reader's own clock says.
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

function Figures({ status, isFresh }: { status: LineStatus; isFresh: boolean }): JSX.Element {
  const { log } = status;
  return (
    <div class="columns">
      <Section title="Counters">
        <p class="note">Since the service started, {durationText(status.uptimeMs / 1000)} ago.</p>
        <Facts
          of={Object.entries(status.counters).map(([name, count]): Fact => {
            const shown = sizesOf.has(name) ? sizeText(count) : countText(count);
            return [names[name] ?? wordsOf(name), shown, faults.has(name) && count > 0 ? 'bad' : undefined];
          })}
        />
      </Section>
      <Section title="Driver">
        {status.kernel === null ? (
          <p class="note">The driver has no counters, or no port is open.</p>
        ) : (
          <Facts
            of={Object.entries(status.kernel).map(
              ([name, count]): Fact => [
                wordsOf(name),
                countText(count),
                kernelFaults.has(name) && count > 0 ? 'bad' : undefined,
              ],
            )}
          />
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
