/** Telemetry of the machine: looked at every half minute, apart from all requests; asked for, it is there. */

import { statfs } from 'node:fs/promises';
import { availableParallelism, loadavg, uptime } from 'node:os';
import { Alerts } from '../base/alerts.ts';
import type { Clock, Timer } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Logger } from '../base/logger.ts';
import { type BootCount, countBoot } from './boot-count.ts';
import type { ClockSync } from './clock-sync.ts';
import type { HostAdmin, HostFacts } from './host-facts.ts';
import { hostRules } from './host-rules.ts';
import { deviceOf, power, realRoots, type SensorRoots, slot, temperature, wear } from './sensors.ts';

/** A look takes some milliseconds, and nothing here changes faster than that is worth knowing. */
const periodMs = 30_000;

export interface TelemetryOptions {
  /** Holds what is to be kept, and host-state.json. */
  readonly dir: string;
  readonly clockSync: ClockSync;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly roots?: SensorRoots;
  /** Seconds since the machine was switched on. */
  readonly uptimeSeconds?: () => number;
}

export interface HostTelemetry extends HostAdmin {
  /** Resolves when there are facts; never rejects. */
  start(): Promise<void>;
  stop(): void;
}

type Sampled = Pick<HostFacts, 'temperatureCelsius' | 'throttled' | 'underVoltage' | 'memory' | 'load' | 'disk'>;

const nothing: Sampled = {
  temperatureCelsius: null,
  throttled: 'unknown',
  underVoltage: 'unknown',
  memory: { totalBytes: null, availableBytes: null },
  load: { averages: [], processors: 0, usedPercent: null },
  disk: {
    totalBytes: null,
    freeBytes: null,
    writtenBytes: null,
    writtenBytesEver: null,
    lifeUsedPercent: null,
    reserve: 'unknown',
  },
};

export function createHostTelemetry(options: TelemetryOptions): HostTelemetry {
  const { dir, clockSync, clock, logger, roots = realRoots, uptimeSeconds = uptime } = options;
  const alerts = new Alerts(hostRules);
  let boots: BootCount | undefined;
  let sampled = nothing;
  let sampledAtMs = clock.monoMs();
  let timer: Timer | undefined;
  let isStopped = false;

  const reported = new Set<string>();
  const failed = (what: string, error: unknown): void => {
    if (reported.has(what)) return;
    reported.add(what);
    logger.warn(`telemetry of the host has no ${what}`, { error: messageOf(error) });
  };
  const look = async (): Promise<void> => {
    sampled = await sample(dir, roots, failed);
    sampledAtMs = clock.monoMs();
  };
  const arm = (): void => {
    if (isStopped) return;
    timer = clock.timer(periodMs, () => void look().then(arm));
  };
  const facts = (): HostFacts => {
    return {
      bootId: clockSync.bootId,
      uptimeSeconds: Math.floor(uptimeSeconds()),
      ageSeconds: Math.floor((clock.monoMs() - sampledAtMs) / 1_000),
      ...sampled,
      clock: clockSync.state(),
      boots: boots?.facts ?? { count: null, powerLosses: null, afterPowerLoss: false },
      slot: slot(roots),
    };
  };
  return {
    async start() {
      try {
        boots = countBoot(dir, clockSync.bootId);
      } catch (error) {
        logger.warn('losses of power are not counted: host-state.json', { error: messageOf(error) });
      }
      await look();
      arm();
    },
    stop() {
      isStopped = true;
      timer?.cancel();
      try {
        boots?.stopped();
      } catch (error) {
        logger.warn('the next boot will count a loss of power that was none', { error: messageOf(error) });
      }
    },
    facts,
    alerts: () => alerts.look(facts(), clock.monoMs()),
  };
}

type Failed = (what: string, error: unknown) => void;

async function sample(dir: string, roots: SensorRoots, failed: Failed): Promise<Sampled> {
  const without = <T>(what: string, unknown: T): ((error: unknown) => T) => {
    return (error) => {
      failed(what, error);
      return unknown;
    };
  };
  const [memory, usedPercent, disk] = await Promise.all([
    memoryNow().catch(without('memory', nothing.memory)),
    usedNow().catch(without('processor load', null)),
    diskNow(dir, roots).catch(without('disk', nothing.disk)),
  ]);
  const load = { averages: loadavg(), processors: availableParallelism(), usedPercent };
  return { temperatureCelsius: temperature(roots), ...power(roots), memory, load, disk };
}

async function memoryNow(): Promise<Sampled['memory']> {
  const { default: system } = await import('systeminformation');
  const { total, available, buffcache } = await system.mem();
  // Where it cannot read /proc/meminfo it takes free memory for available: then nothing is cached either.
  return { totalBytes: total > 0 ? total : null, availableBytes: buffcache > 0 ? available : null };
}

/** Load of all processors since the previous sample. */
async function usedNow(): Promise<number | null> {
  const { default: system } = await import('systeminformation');
  const { currentLoad: used, cpus } = await system.currentLoad();
  return cpus.length > 0 && Number.isFinite(used) ? Math.round(used * 10) / 10 : null;
}

async function diskNow(dir: string, roots: SensorRoots): Promise<Sampled['disk']> {
  const { blocks, bavail, bsize } = await statfs(dir);
  return { totalBytes: blocks * bsize, freeBytes: bavail * bsize, ...wear(roots, deviceOf(dir)) };
}
