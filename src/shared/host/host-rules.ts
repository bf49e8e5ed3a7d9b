/** The device's own alerts about the machine: a rule table. Pure. */
import type { Rule } from '../base/alerts.ts';
import type { HostFacts } from './host-facts.ts';

/** A Raspberry Pi slows itself down from 80 degrees on. */
const hotCelsius = 80;
/** Part of the memory; below it the kernel evicts programs' pages and reads them again from the card. */
const lowMemoryPart = 0.1;
const lowDiskPart = 0.05;
const wornPercent = 90;
/** Time sync needs a network and some patience after a boot. */
const clockGraceS = 600;
const tellPowerLossS = 86_400;

export const hostRules: readonly Rule<HostFacts>[] = [
  {
    name: 'HostTemperatureHigh',
    severity: 'warning',
    value: ({ temperatureCelsius: now }) => (now !== null && now >= hotCelsius ? now : 0),
    summary: ({ temperatureCelsius: now }) => `the processor has ${now ?? 0} degrees Celsius, ${hotCelsius} or more`,
    expr: `lineside_host_temperature_celsius >= ${hotCelsius}`,
    title: 'The processor of BOX has VALUE degrees Celsius',
    means: `The processor has ${hotCelsius} degrees Celsius or more. A Raspberry Pi throttles itself at this temperature.`,
    remedy: 'More air, a heat sink, or a cooler place.',
  },
  {
    name: 'HostUnderVoltage',
    severity: 'critical',
    value: ({ underVoltage }) => Number(underVoltage === 'yes'),
    summary: () => 'the supply voltage is too low: power supply or cable; data may be lost',
    expr: 'lineside_host_under_voltage == 1',
    title: 'The supply voltage of BOX is too low',
    means: 'The supply voltage is too low. A write to the card at such a moment may damage data.',
    remedy:
      'Use a stronger power supply (a Raspberry Pi 4 needs 3 A) and a shorter, thicker cable. Check what its USB ports supply.',
  },
  {
    name: 'HostThrottled',
    severity: 'warning',
    value: ({ throttled }) => Number(throttled === 'yes'),
    summary: () => 'the processor is throttled because of heat or low voltage',
    expr: 'lineside_host_throttled == 1',
    title: 'The processor of BOX is throttled',
    means: 'The processor is throttled, because of heat or low voltage.',
    remedy: 'Check temperature and power supply.',
  },
  {
    name: 'HostMemoryLow',
    severity: 'warning',
    value: ({ memory: { availableBytes, totalBytes } }) => partBelow(availableBytes, totalBytes, lowMemoryPart),
    summary: ({ memory }) => `${mib(memory.availableBytes)} of ${mib(memory.totalBytes)} MiB of memory are available`,
    expr: `lineside_host_memory_available_bytes / lineside_host_memory_bytes < ${lowMemoryPart}`,
    title: '{{ $value | humanizePercentage }} of the memory of BOX are available',
    means: `Less than ${lowMemoryPart * 100} % of the memory is available. Programs are re-read from the card; if memory runs out, the hub is terminated first.`,
    remedy: 'Find out what else runs on the box, and restart what grows.',
  },
  {
    name: 'HostDiskLow',
    severity: 'critical',
    value: ({ disk: { freeBytes, totalBytes } }) => partBelow(freeBytes, totalBytes, lowDiskPart),
    summary: ({ disk }) => `${mib(disk.freeBytes)} of ${mib(disk.totalBytes)} MiB are free where data are kept`,
    expr: `lineside_host_disk_free_bytes / lineside_host_disk_bytes < ${lowDiskPart}`,
    title: '{{ $value | humanizePercentage }} of the disk of BOX are free',
    means: `Less than ${lowDiskPart * 100} % of the file system of the data is free. If it is full, the serial log and changes stop.`,
    remedy:
      'Lower log.max_bytes (the log gets smaller within minutes), remove other files, or use a larger card. Reference data do not give space back.',
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
    expr: `lineside_host_card_life_used_percent >= ${wornPercent} or lineside_host_card_reserve_low == 1`,
    title: 'The card of BOX is worn',
    means: `${wornPercent} % of the card's life time is used, or most of its spare blocks. Only eMMC reports this, SD cards do not.`,
    remedy: '`lineside backup`, a new card, then `lineside restore`.',
  },
  {
    name: 'HostClockNotSynced',
    severity: 'warning',
    value: ({ clock, uptimeSeconds }) => (clock === 'unsynced' && uptimeSeconds > clockGraceS ? uptimeSeconds : 0),
    summary: ({ uptimeSeconds }) =>
      `the clock has not been set in the ${Math.floor(uptimeSeconds / 60)} minutes since the machine was switched on`,
    expr: `lineside_host_clock_synced == 0 and lineside_host_uptime_seconds > ${clockGraceS}`,
    title: 'The clock of BOX has not been set since it was switched on',
    means: `The clock was not set within ${clockGraceS / 60} minutes after the boot. Entries of the serial log are marked, and corrected when the time is known.`,
    remedy: 'Let the box reach a time server (UDP 123), or set its clock.',
  },
  {
    name: 'HostDataLost',
    severity: 'critical',
    value: ({ slot }) => Number(slot?.dataLost === true),
    summary: () => 'the data partition cannot be mounted: all that is kept now is lost with the power',
    expr: 'lineside_host_data_lost == 1',
    title: 'The data partition of BOX cannot be mounted',
    means: 'The data partition cannot be mounted. All data is in memory only and is lost when the box is switched off.',
    remedy:
      'Do not restart. Save what is needed (`lineside log export`, `lineside backup`), then replace the card and restore a backup.',
  },
  {
    name: 'HostUpdateFailed',
    severity: 'warning',
    value: ({ slot }) => Number(slot?.updateFailed === true),
    summary: ({ slot }) =>
      `an update did not become healthy: the box went back to the system in slot ${slot?.name ?? ''}`,
    expr: 'lineside_host_update_failed == 1',
    title: 'An update of BOX did not become healthy',
    means:
      'An update did not become healthy, and the box went back to the previous system. The next update that is installed clears the alert.',
    remedy: 'See `lineside update status` and the journal of that time; install a corrected bundle.',
  },
  {
    name: 'HostPowerLoss',
    severity: 'info',
    value: ({ boots, uptimeSeconds }) =>
      boots.afterPowerLoss && uptimeSeconds < tellPowerLossS ? Math.max(1, boots.powerLosses ?? 1) : 0,
    summary: ({ boots }) => `power was lost before this boot; ${boots.powerLosses ?? 1} times in all`,
    expr: `lineside_host_after_power_loss == 1 and lineside_host_uptime_seconds < ${tellPowerLossS}`,
    title: 'BOX lost power before this boot',
    means:
      'The box lost power before this boot. Acknowledged data is there. The alert lasts for a day; lineside_host_power_losses counts the power failures.',
    remedy: 'Nothing after one power failure. If they are frequent, check the supply.',
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
