/** How the line has been doing: what went through it, what was dropped, what went wrong. */
import type { JSX } from 'preact';
import type { LineStatus } from '../../../shared/gen/http.ts';
import { countText, durationText, percentText, sizeText } from '../../format.ts';
import { text } from '../../text.ts';
import { AlertList } from '../alert-list.tsx';
import { useLine } from '../line-status.tsx';
import { badAbove0, type Fact, Facts, Heading, ProblemBox, Section } from '../parts.tsx';
import { History } from './history.tsx';

export function HealthView(): JSX.Element {
  const line = useLine();
  return (
    <>
      <Heading>{text.shell.sections.health}</Heading>
      <AlertList />
      <History />
      <ProblemBox problem={line.problem} />
      {line.value !== undefined && <Figures status={line.value} isFresh={line.isFresh} />}
    </>
  );
}

const words = text.health;

const sizes = new Set(['rxBytes', 'txBytes', 'rxDroppedBytes', 'rxBufferedBytes', 'txQueuedBytes']);
/** Anything above zero is worth a look. */
const faults = new Set(['txFailedPackets', 'losses', 'rxPauses']);
const driverFaults = new Set(['frame', 'overrun', 'parity', 'bufOverrun']);

/** `names`: of all counts, so that one that is new is not shown without words. */
function countFacts<Name extends string>(
  counts: Readonly<Record<Name, number>>,
  names: Readonly<Record<Name, string>>,
  bad: ReadonlySet<string>,
): Fact[] {
  return (Object.keys(counts) as Name[]).map((name) => {
    const count = counts[name];
    const shown = sizes.has(name) ? sizeText(count) : countText(count);
    return [names[name], shown, bad.has(name) && count > 0 ? 'bad' : undefined];
  });
}

function Figures({ status, isFresh }: { status: LineStatus; isFresh: boolean }): JSX.Element {
  const { log } = status;
  const usedPercent = percentText((100 * log.usedBytes) / (log.maxBytes || 1));
  return (
    <div class="columns">
      <Section title={words.counters}>
        <p class="note">{words.since(durationText(status.uptimeMs / 1000))}</p>
        <Facts of={countFacts(status.counters, words.counts, faults)} />
      </Section>
      <Section title={words.driver}>
        {status.kernel === null ? (
          <p class="note">{status.portState === 'open' ? words.noDriver : words.noPort}</p>
        ) : (
          <Facts of={countFacts(status.kernel, words.driverCounts, driverFaults)} />
        )}
      </Section>
      <Section title={words.log}>
        {log.error !== '' && <p class="fault">{log.error}</p>}
        <Facts
          of={[
            [
              words.state,
              log.state === 'ok' ? words.storing : words.notStoring,
              log.state !== 'ok' ? 'bad' : isFresh ? 'good' : undefined,
            ],
            [
              words.entries,
              log.lastId === 0 ? words.noEntries : words.entryIds(countText(log.firstId), countText(log.lastId)),
            ],
            [words.used, words.usedOf(sizeText(log.usedBytes), sizeText(log.maxBytes), usedPercent)],
            [words.pending, countText(log.pendingEntries)],
            badAbove0(words.lost, log.lostEntries),
            [words.readers, countText(status.subscribers)],
            [words.clock, words.clocks[status.clock.state]],
            [words.version, status.version],
          ]}
        />
      </Section>
    </div>
  );
}
