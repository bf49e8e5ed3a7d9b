/** Telemetry of the machine: sampled every half minute, independent of requests. */

import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { availableParallelism, cpus, loadavg, uptime } from 'node:os';
import { join } from 'node:path';
import { Alerts } from '../base/alerts.ts';
import type { Clock } from '../base/clock.ts';
import { messageOf, systemCode } from '../base/errors.ts';
import { replaceSynced } from '../base/files.ts';
import type { Logger } from '../base/logger.ts';
import { Loop } from '../base/loop.ts';
import type { ClockSync } from './clock-sync.ts';
import type { BootFacts, HostFacts } from './host-facts.ts';
import { hostRules } from './host-rules.ts';
import { deviceOf, power, realRoots, type SensorRoots, slot, temperature, unknownWear, wear } from './sensors.ts';

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

export type HostTelemetry = ReturnType<typeof createHostTelemetry>;

type Sampled = Pick<HostFacts, 'temperatureCelsius' | 'throttled' | 'underVoltage' | 'memory' | 'load' | 'disk'>;

const nothing: Sampled = {
  temperatureCelsius: null,
  throttled: 'unknown',
  underVoltage: 'unknown',
  memory: { totalBytes: null, availableBytes: null },
  load: { averages: [], processors: 0, usedPercent: null },
  disk: { totalBytes: null, freeBytes: null, ...unknownWear },
};

export function createHostTelemetry(options: TelemetryOptions) {
  const { dir, clockSync, clock, logger, roots = realRoots, uptimeSeconds = uptime } = options;
  const alerts = new Alerts(hostRules);
  let boots: BootCount | undefined;
  let sampled = nothing;
  let sampledAtMs = clock.monoMs();

  const processors = new ProcessorLoad();
  const reported = new Set<string>();
  const failed = (what: string, error: unknown): void => {
    if (reported.has(what)) return;
    reported.add(what);
    logger.warn(`telemetry of the host has no ${what}`, { error: messageOf(error) });
  };
  const look = async (): Promise<number> => {
    sampled = await sampleHost(dir, roots, failed, processors);
    sampledAtMs = clock.monoMs();
    return periodMs;
  };
  const loop = new Loop({ pass: look, clock });
  const facts = (): HostFacts => ({
    bootId: clockSync.bootId,
    uptimeSeconds: Math.floor(uptimeSeconds()),
    ageSeconds: Math.floor((clock.monoMs() - sampledAtMs) / 1_000),
    ...sampled,
    clock: clockSync.state(),
    boots: boots?.facts ?? uncounted,
    slot: slot(roots),
  });
  return {
    /** Resolves when there are facts; never rejects. */
    async start(): Promise<void> {
      try {
        boots = countBoot(dir, clockSync.bootId);
      } catch (error) {
        logger.warn('power failures are not counted: host-state.json', { error: messageOf(error) });
      }
      loop.start(await look());
    },
    stop() {
      void loop.stop();
      try {
        boots?.stopped();
      } catch (error) {
        logger.warn('the next boot will count a power failure that was none', { error: messageOf(error) });
      }
    },
    facts,
    alerts: () => alerts.look(facts(), clock.monoMs()),
  };
}

type Failed = (what: string, error: unknown) => void;

/** The facts of the machine now; `dir`: on the disk in question. */
export async function sampleHost(
  dir: string,
  roots: SensorRoots,
  failed: Failed = () => {},
  processors = new ProcessorLoad(),
): Promise<Sampled> {
  const without = <T>(what: string, unknown: T): ((error: unknown) => T) => {
    return (error) => {
      failed(what, error);
      return unknown;
    };
  };
  const [memory, disk] = await Promise.all([
    memoryNow().catch(without('memory', nothing.memory)),
    diskNow(dir, roots).catch(without('disk', nothing.disk)),
  ]);
  const load = { averages: loadavg(), processors: availableParallelism(), usedPercent: processors.usedPercent() };
  return { temperatureCelsius: temperature(roots), ...power(roots), memory, load, disk };
}

async function memoryNow(): Promise<Sampled['memory']> {
  const { default: system } = await import('systeminformation');
  const { total, available, buffcache } = await system.mem();
  // Where it cannot read /proc/meminfo it takes free memory for available: then nothing is cached either.
  return { totalBytes: total > 0 ? total : null, availableBytes: buffcache > 0 ? available : null };
}

/** How busy all processors were between two calls. systeminformation's figure costs three processes (8 ms instead of 0.1). */
class ProcessorLoad {
  #before = { busyMs: 0, allMs: 0 };

  /** Percent since the call before; at the first call, since the boot. null: unknown. */
  usedPercent(): number | null {
    const times = cpus().map(({ times: { idle, ...busy } }) => ({ idle, busy: Object.values(busy) }));
    const busyMs = times.flatMap(({ busy }) => busy).reduce((sum, one) => sum + one, 0);
    const allMs = times.reduce((sum, { idle }) => sum + idle, busyMs);
    const { busyMs: busyBefore, allMs: allBefore } = this.#before;
    this.#before = { busyMs, allMs };
    const used = (100 * (busyMs - busyBefore)) / (allMs - allBefore);
    return Number.isFinite(used) ? Math.round(Math.min(100, Math.max(0, used)) * 10) / 10 : null;
  }
}

async function diskNow(dir: string, roots: SensorRoots): Promise<Sampled['disk']> {
  const { blocks, bavail, bsize } = await statfs(dir);
  return { totalBytes: blocks * bsize, freeBytes: bavail * bsize, ...wear(roots, deviceOf(dir)) };
}

// How often the machine lost power: host-state.json in the hub's data says which boot the hub ran in last, and whether
// it was stopped. A boot that finds it not stopped in another boot follows a loss of power (or a reset: a crash of the
// hub alone is followed by its restart in the same boot). Stopped by hand before the plug is pulled, it is not counted.
// Written at start and at stop, whole and synced: twice a boot.

const fileName = 'host-state.json';

interface State {
  readonly bootId: string;
  readonly stopped: boolean;
  readonly boots: number;
  readonly powerLosses: number;
  readonly afterPowerLoss: boolean;
}

interface BootCount {
  readonly facts: BootFacts;
  /** The hub ends: what comes next is no loss of power. */
  stopped(): void;
}

export const uncounted: BootFacts = { count: null, powerLosses: null, afterPowerLoss: false };

/** `bootId` '': boots cannot be distinguished. Throws where the file cannot be written. */
export function countBoot(dir: string, bootId: string): BootCount {
  if (bootId === '') return { facts: uncounted, stopped: () => undefined };
  const path = join(dir, fileName);
  const state = begun(read(path), bootId);
  replaceSynced(path, `${JSON.stringify(state)}\n`);
  const { boots, powerLosses, afterPowerLoss } = state;
  return {
    facts: { count: boots, powerLosses, afterPowerLoss },
    stopped: () => replaceSynced(path, `${JSON.stringify({ ...state, stopped: true })}\n`),
  };
}

function begun(before: State | undefined, bootId: string): State {
  if (before === undefined) return { bootId, stopped: false, boots: 1, powerLosses: 0, afterPowerLoss: false };
  if (before.bootId === bootId) return { ...before, stopped: false };
  const isLoss = !before.stopped;
  return {
    bootId,
    stopped: false,
    boots: before.boots + 1,
    powerLosses: before.powerLosses + Number(isLoss),
    afterPowerLoss: isLoss,
  };
}

/** A file that makes no sense is replaced: a count is not worth a hub that does not start. */
function read(path: string): State | undefined {
  try {
    const found: unknown = JSON.parse(readFileSync(path, 'utf8'));
    return isState(found) ? found : undefined;
  } catch (error) {
    if (error instanceof SyntaxError || systemCode(error) === 'ENOENT') return undefined;
    throw error;
  }
}

function isState(found: unknown): found is State {
  if (typeof found !== 'object' || found === null) return false;
  const { bootId, stopped, boots, powerLosses, afterPowerLoss } = found as Partial<Record<keyof State, unknown>>;
  const flags = typeof stopped === 'boolean' && typeof afterPowerLoss === 'boolean';
  return typeof bootId === 'string' && flags && Number.isSafeInteger(boots) && Number.isSafeInteger(powerLosses);
}
