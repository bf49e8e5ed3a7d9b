/** The machine's numbers for Prometheus; what cannot be told has no series. */
import { Gauge, type Registry } from 'prom-client';
import type { HostFacts, Told } from '../../shared/host/host-facts.ts';

type Reading = readonly [name: string, help: string, of: (facts: HostFacts) => number | null];

const flag = (told: Told): number | null => (told === 'unknown' ? null : Number(told === 'yes'));

const readings: readonly Reading[] = [
  ['uptime_seconds', 'Since the machine was switched on.', ({ uptimeSeconds }) => uptimeSeconds],
  ['temperature_celsius', 'Of the processor.', ({ temperatureCelsius }) => temperatureCelsius],
  ['throttled', '1: the processor is slowed down.', ({ throttled }) => flag(throttled)],
  ['under_voltage', '1: the supply voltage is too low.', ({ underVoltage }) => flag(underVoltage)],
  ['memory_bytes', 'Memory.', ({ memory }) => memory.totalBytes],
  ['memory_available_bytes', 'Memory that is available.', ({ memory }) => memory.availableBytes],
  ['load1', 'Runnable threads, averaged over a minute.', ({ load }) => load.averages[0] ?? null],
  ['processors', 'Processors.', ({ load }) => load.processors],
  ['cpu_used_percent', 'Of all processors, over half a minute.', ({ load }) => load.usedPercent],
  ['disk_bytes', 'Size of the file system of the data.', ({ disk }) => disk.totalBytes],
  ['disk_free_bytes', 'Free on it.', ({ disk }) => disk.freeBytes],
  ['card_written_bytes', 'Written to the card since the boot.', ({ disk }) => disk.writtenBytes],
  ['disk_written_ever_bytes', 'Written to the file system since it was made.', ({ disk }) => disk.writtenBytesEver],
  ['card_life_used_percent', 'Of the life time of the card at most.', ({ disk }) => disk.lifeUsedPercent],
  [
    'card_reserve_low',
    '1: most spare blocks of the card are used.',
    ({ disk: { reserve } }) => (reserve === 'unknown' ? null : Number(reserve !== 'normal')),
  ],
  [
    'clock_synced',
    '1: time sync has set the clock.',
    ({ clock }) => (clock === 'unknown' ? null : Number(clock === 'synced')),
  ],
  ['boots', 'Boots in which the hub ran on these data.', ({ boots }) => boots.count],
  ['power_losses', 'Boots that followed a loss of power.', ({ boots }) => boots.powerLosses],
  ['after_power_loss', '1: this boot is one of them.', ({ boots }) => Number(boots.afterPowerLoss)],
  ['data_lost', '1: the data partition is not mounted.', ({ slot }) => (slot === null ? null : Number(slot.dataLost))],
  [
    'update_failed',
    '1: an update did not become healthy, and the box went back.',
    ({ slot }) => (slot === null ? null : Number(slot.updateFailed)),
  ],
  ['slot_trying', '1: the system is on trial.', ({ slot }) => (slot === null ? null : Number(slot.trying))],
];

/** Registers them; the function sets them to what the facts say. */
export function hostMetrics(registry: Registry): (facts: HostFacts) => void {
  const gauges = readings.map(([name, help, of]) => {
    const gauge = new Gauge({ name: `lineside_host_${name}`, help, registers: [registry] });
    return (facts: HostFacts): void => {
      const value = of(facts);
      if (value === null) gauge.remove();
      else gauge.set(value);
    };
  });
  return (facts) => {
    for (const set of gauges) set(facts);
  };
}
