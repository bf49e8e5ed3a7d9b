/** The machine itself. */
import type { JSX } from 'preact';
import { countText, durationText, percentText, sizeText } from '../format.ts';
import type { HostFacts } from '../shapes.ts';
import { useLoaded } from './loading.ts';
import { type Fact, Facts, Heading, ProblemBox, Section } from './parts.tsx';
import { useSession } from './session.ts';

const EVERY_MS = 10_000;

export function BoxView(): JSX.Element {
  const { api } = useSession();
  const { value, problem } = useLoaded('host', EVERY_MS, (signal) => api.get<HostFacts>('/api/v1/admin/host', signal));
  return (
    <>
      <Heading>Box</Heading>
      <ProblemBox problem={problem} />
      {value === undefined && problem === undefined && <p class="note">Loading…</p>}
      {value !== undefined && (
        <div class="columns">
          <Section title="Power and heat">
            <Facts of={power(value)} />
          </Section>
          <Section title="Memory and load">
            <Facts of={memory(value)} />
          </Section>
          <Section title="Card">
            <Facts of={disk(value)} />
          </Section>
          {value.slot !== null && (
            <Section title="System">
              <Facts of={slot(value.slot)} />
            </Section>
          )}
        </div>
      )}
    </>
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
