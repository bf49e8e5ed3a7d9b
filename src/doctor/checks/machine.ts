/** Checks of the machine: its clock, its memory, heat and supply, and which of the two systems of the image runs. */
import { stat } from 'node:fs/promises';
import { uptime } from 'node:os';
import { join } from 'node:path';
import { parseSlots } from '../../appliance/update/slots.ts';
import { instantOfMs } from '../../shared/base/instant.ts';
import { clockState } from '../../shared/host/clock-sync.ts';
import type { HostFacts } from '../../shared/host/host-facts.ts';
import { hostRules } from '../../shared/host/host-rules.ts';
import { slot } from '../../shared/host/sensors.ts';
import { sampleHost, uncounted } from '../../shared/host/telemetry.ts';
import { type Finding, type Findings, failed, ok, orFine, skipped, warning } from '../check.ts';
import type { CheckContext } from '../check-context.ts';
import { textOf } from '../safe-files.ts';

/** 2026-01-01, before this was written: an earlier clock is wrong. */
const floorMs = 1_767_225_600_000;
/** 2100-01-01: no box lives so long; the clock was set wrong by hand. */
const ceilingMs = 4_102_444_800_000;

export interface ClockFacts {
  readonly nowMs: number;
  readonly state: HostFacts['clock'];
  /** Build time of the system; 0: unknown. */
  readonly builtMs: number;
  readonly uptimeS: number;
}

/** Time sync needs a network and some patience after a boot. */
const graceS = 600;

export function judgeClock({ nowMs, state, builtMs, uptimeS }: ClockFacts): Finding[] {
  const shown = `${instantOfMs(nowMs).slice(0, 19)}Z`;
  const set = remedyOf('HostClockNotSynced');
  if (nowMs < Math.max(floorMs, builtMs))
    return [
      failed(`the clock says ${shown}, which is before this was built`, `${set} Certificates look not yet valid.`),
    ];
  if (nowMs > ceilingMs) return [failed(`the clock says ${shown}`, `${set} Certificates look expired.`)];
  if (state === 'synced') return [ok(`${shown}, set by time sync`)];
  if (state === 'unknown') return [ok(`${shown}; no time sync confirms it`)];
  return uptimeS < graceS
    ? [ok(`${shown}, not yet set by time sync; the machine runs for ${Math.floor(uptimeS)} s`)]
    : [warning(`${shown}, and time sync has not set it`, set)];
}

export async function checkClock({ clock, config, roots }: CheckContext): Promise<Finding[]> {
  const epoch = await stat(join(roots.etc, '../usr/lib/clock-epoch')).catch(() => undefined);
  const state = clockState(config?.device.timeSyncFile ?? '');
  return judgeClock({ nowMs: clock.wallMs(), state, builtMs: epoch?.mtimeMs ?? 0, uptimeS: uptime() });
}

function remedyOf(alert: string): string {
  return (hostRules.find(({ name }) => name === alert)?.remedy ?? '').replaceAll('`', '"');
}

/** The checks of clock, disk and slots report these. */
const elsewhere = new Set(['HostClockNotSynced', 'HostDiskLow', 'HostPowerLoss', 'HostDataLost', 'HostUpdateFailed']);

export function judgeMachine(facts: HostFacts): Finding[] {
  const findings = hostRules
    .filter((rule) => !elsewhere.has(rule.name) && rule.value(facts) > 0)
    .map((rule) => (rule.severity === 'critical' ? failed : warning)(rule.summary(facts), remedyOf(rule.name)));
  const { temperatureCelsius: heat, memory, underVoltage } = facts;
  const free = memory.availableBytes === null ? 'unknown' : `${Math.floor(memory.availableBytes / 1_048_576)} MiB`;
  const volts = { yes: 'too low', no: 'good', unknown: 'unknown' }[underVoltage];
  const degrees = heat === null ? 'temperature unknown' : `${heat} °C`;
  return orFine(findings, `${degrees}, ${free} of memory available, supply ${volts}`);
}

export async function checkMachine(context: CheckContext): Promise<Finding[]> {
  return judgeMachine(await machineFacts(context));
}

export async function machineFacts({ roots, config }: CheckContext): Promise<HostFacts> {
  const sensors = { sys: roots.sys, bootFacts: join(roots.run, 'lineside-boot') };
  return {
    bootId: await textOf(join(roots.proc, 'sys/kernel/random/boot_id')),
    uptimeSeconds: uptime(),
    ageSeconds: 0,
    ...(await sampleHost(config?.data.dir ?? '/', sensors)),
    clock: clockState(config?.device.timeSyncFile ?? ''),
    boots: uncounted,
    slot: slot(sensors),
  };
}

/** `slotFile`: slot.txt of the boot partition; ''. */
export function judgeSlots({ running, slotFile }: { running: HostFacts['slot']; slotFile: string }): Finding[] {
  if (running === null) return [skipped("this is no appliance's image")];
  const findings = [...slotFindings(running, slotFile)];
  return findings.some(({ state }) => state !== 'skipped') ? findings : [ok(`slot ${running.name}, known to be good`)];
}

function* slotFindings(running: NonNullable<HostFacts['slot']>, slotFile: string): Findings {
  if (running.dataLost)
    yield failed(
      'the data partition cannot be mounted: all that is kept now is lost with the power',
      remedyOf('HostDataLost'),
    );
  if (running.updateFailed)
    yield warning(`an update did not become healthy: slot ${running.name} runs again`, remedyOf('HostUpdateFailed'));
  if (running.trying)
    yield warning(
      `slot ${running.name} is on trial: if the service does not become healthy, the next start returns to the other slot`,
      'Wait until the service is healthy; it marks the slot good automatically.',
    );
  if (slotFile === '') yield skipped('slot.txt cannot be read', 'Run it as root.');
  else if (parseSlots(slotFile) === undefined)
    yield failed('slot.txt is damaged', 'Install an update, which rewrites it; the running slot stays.');
}

export async function checkSlots({ roots }: CheckContext): Promise<Finding[]> {
  const running = slot({ sys: roots.sys, bootFacts: join(roots.run, 'lineside-boot') });
  const files = await Promise.all(roots.boot.map((dir) => textOf(join(dir, 'slot.txt'))));
  return judgeSlots({ running, slotFile: files.find(Boolean) ?? '' });
}
