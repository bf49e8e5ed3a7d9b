/** What is wrong with the machine, as the device's own alerts: a rule table. systemd/monitoring/prometheus-rules.yml says the same. Pure. */
import type { Rule } from '../base/alerts.ts';
import type { HostFacts } from './host-facts.ts';

/** A Raspberry Pi slows itself down from 80 degrees on. */
const hotCelsius = 80;
/** Of the memory; below, the kernel begins to throw out programs' pages and reads them again from the card. */
const lowMemoryPart = 0.1;
const lowDiskPart = 0.05;
const wornPercent = 90;
/** Time sync needs a network and some patience after a boot. */
const clockGraceS = 600;
/** How long a power loss is worth telling. */
const tellPowerLossS = 86_400;

export const hostRules: readonly Rule<HostFacts>[] = [
  {
    name: 'HostTemperatureHigh',
    severity: 'warning',
    value: ({ temperatureCelsius: now }) => (now !== null && now >= hotCelsius ? now : 0),
    summary: ({ temperatureCelsius: now }) => `the processor has ${now ?? 0} degrees Celsius, ${hotCelsius} or more`,
  },
  {
    name: 'HostUnderVoltage',
    severity: 'critical',
    value: ({ underVoltage }) => Number(underVoltage === 'yes'),
    summary: () => 'the supply voltage is too low: power supply or cable; data may be lost',
  },
  {
    name: 'HostThrottled',
    severity: 'warning',
    value: ({ throttled }) => Number(throttled === 'yes'),
    summary: () => 'the processor is slowed down, by heat or for want of voltage',
  },
  {
    name: 'HostMemoryLow',
    severity: 'warning',
    value: ({ memory: { availableBytes, totalBytes } }) => partBelow(availableBytes, totalBytes, lowMemoryPart),
    summary: ({ memory }) => `${mib(memory.availableBytes)} of ${mib(memory.totalBytes)} MiB of memory are available`,
  },
  {
    name: 'HostDiskLow',
    severity: 'critical',
    value: ({ disk: { freeBytes, totalBytes } }) => partBelow(freeBytes, totalBytes, lowDiskPart),
    summary: ({ disk }) => `${mib(disk.freeBytes)} of ${mib(disk.totalBytes)} MiB are free where data are kept`,
  },
  {
    name: 'HostCardWorn',
    severity: 'critical',
    value: ({ disk: { lifeUsedPercent, reserve } }) =>
      (lifeUsedPercent ?? 0) >= wornPercent
        ? (lifeUsedPercent ?? 0)
        : Number(reserve === 'warning' || reserve === 'urgent'),
    summary: ({ disk: { lifeUsedPercent, reserve } }) =>
      `the card says that it is worn: ${lifeUsedPercent === null ? '' : `up to ${lifeUsedPercent} % of its life time used, `}reserve ${reserve}`,
  },
  {
    name: 'HostClockNotSynced',
    severity: 'warning',
    value: ({ clock, uptimeSeconds }) => (clock === 'unsynced' && uptimeSeconds > clockGraceS ? uptimeSeconds : 0),
    summary: ({ uptimeSeconds }) =>
      `the clock has not been set in the ${Math.floor(uptimeSeconds / 60)} minutes since the machine was switched on`,
  },
  {
    name: 'HostDataLost',
    severity: 'critical',
    value: ({ slot }) => Number(slot?.dataLost === true),
    summary: () => 'the data partition cannot be mounted: all that is kept now is lost with the power',
  },
  {
    name: 'HostUpdateFailed',
    severity: 'warning',
    value: ({ slot }) => Number(slot?.updateFailed === true),
    summary: ({ slot }) =>
      `an update did not become healthy: the box went back to the system in slot ${slot?.name ?? ''}`,
  },
  {
    name: 'HostPowerLoss',
    severity: 'info',
    value: ({ boots, uptimeSeconds }) =>
      boots.afterPowerLoss && uptimeSeconds < tellPowerLossS ? Math.max(1, boots.powerLosses ?? 1) : 0,
    summary: ({ boots }) => `power was lost before this boot; ${boots.powerLosses ?? 1} times in all`,
  },
];

/** The part itself where it is below the limit, as a value that fires: never quite 0. */
function partBelow(some: number | null, all: number | null, limit: number): number {
  if (some === null || all === null || all === 0) return 0;
  const part = some / all;
  return part < limit ? Math.max(part, Number.MIN_VALUE) : 0;
}

function mib(bytes: number | null): number {
  return Math.floor((bytes ?? 0) / 1_048_576);
}
