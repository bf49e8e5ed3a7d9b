/** How the line has been doing: what went through it, what was dropped, what went wrong. */
import type { JSX } from 'preact';
import type { LineStatus } from '../../../shared/gen/http.ts';
import { countText, durationText, percentText, sizeText, wordsOf } from '../../format.ts';
import { AlertList } from '../alert-list.tsx';
import { useLine } from '../line-status.tsx';
import { type Fact, Facts, Heading, ProblemBox, Section } from '../parts.tsx';
import { History } from './history.tsx';

export function HealthView(): JSX.Element {
  const line = useLine();
  return (
    <>
      <Heading>Health</Heading>
      <AlertList />
      <History />
      <ProblemBox problem={line.problem} />
      {line.value !== undefined && <Figures status={line.value} isFresh={line.isFresh} />}
    </>
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
