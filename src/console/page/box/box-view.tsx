/** The machine itself: power, memory, card, slot. */
import type { JSX } from 'preact';
import type { HostFacts } from '../../../shared/gen/http.ts';
import { countText, durationText, percentText, sizeText } from '../../format.ts';
import { text } from '../../text.ts';
import { useLoaded } from '../loading.ts';
import { Answer, type Fact, Facts, Heading, Section } from '../parts.tsx';

const words = text.box;

const EVERY_MS = 10_000;

export function BoxView(): JSX.Element {
  const facts = useLoaded<HostFacts>('/api/v1/admin/host', EVERY_MS);
  return (
    <>
      <Heading>{text.shell.sections.box}</Heading>
      <Answer of={facts}>
        {(value) => (
          <div class="columns">
            <FactsCard title={words.power} of={power(value)} />
            <FactsCard title={words.memoryAndLoad} of={memory(value)} />
            <FactsCard title={words.card} of={disk(value)} />
            {value.slot !== null && <FactsCard title={words.system} of={slot(value.slot)} />}
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
    [words.temperature, temperatureCelsius === null ? words.states.unknown : `${temperatureCelsius.toFixed(1)} °C`],
    [words.underVoltage, words.states[underVoltage], worryIf(underVoltage === 'yes')],
    [words.throttled, words.states[throttled], worryIf(throttled === 'yes')],
    [words.uptime, durationText(uptimeSeconds)],
    [words.clock, words.states[clock], worryIf(clock === 'unsynced')],
    [words.boots, countText(boots.count)],
    [words.powerFailures, countText(boots.powerLosses), worryIf(boots.afterPowerLoss)],
  ];
}

function memory({ memory: { totalBytes, availableBytes }, load }: HostFacts): Fact[] {
  return [
    [words.memory, sizeText(totalBytes)],
    [words.available, sizeText(availableBytes)],
    [words.processors, words.processorsUsed(countText(load.processors), percentText(load.usedPercent))],
    [words.load, load.averages.map((one) => one.toFixed(2)).join('  ')],
  ];
}

function disk({ disk: of }: HostFacts): Fact[] {
  return [
    [words.size, sizeText(of.totalBytes)],
    [words.free, sizeText(of.freeBytes)],
    [words.written, sizeText(of.writtenBytes)],
    [words.writtenEver, sizeText(of.writtenBytesEver)],
    [words.wear, percentText(of.lifeUsedPercent)],
    [words.spare, words.states[of.reserve], worryIf(of.reserve === 'warning' || of.reserve === 'urgent')],
  ];
}

function slot({ name, trying, dataLost, updateFailed }: NonNullable<HostFacts['slot']>): Fact[] {
  return [
    [words.slot, name],
    [words.onTrial, trying ? words.trying : words.notTrying],
    [words.data, dataLost ? words.dataLost : words.dataKept, worryIf(dataLost)],
    [words.lastUpdate, updateFailed ? words.updateFailed : words.updateWell, worryIf(updateFailed)],
  ];
}
