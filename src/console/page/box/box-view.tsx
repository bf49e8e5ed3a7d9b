/** The machine itself: power, memory, card, slot. */
import type { JSX } from 'preact';
import type { HostFacts } from '../../../shared/gen/http.ts';
import { countText, durationText, percentText, sizeText } from '../../format.ts';
import { useLoaded } from '../loading.ts';
import { Answer, type Fact, Facts, Heading, Section } from '../parts.tsx';

const EVERY_MS = 10_000;

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
