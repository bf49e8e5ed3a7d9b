/**
 * How often the machine lost power: host-state.json in the hub's data says which boot the hub ran in last, and whether
 * it was stopped. A boot that finds it not stopped in another boot follows a loss of power (or a reset: a crash of the
 * hub alone is followed by its restart in the same boot). Stopped by hand before the plug is pulled, it is not counted.
 * Written at start and at stop, whole and synced: twice a boot.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { systemCode } from '../base/errors.ts';
import { replaceSynced } from '../base/synced-file.ts';
import type { BootFacts } from './host-facts.ts';

const fileName = 'host-state.json';

interface State {
  readonly bootId: string;
  readonly stopped: boolean;
  readonly boots: number;
  readonly powerLosses: number;
  readonly afterPowerLoss: boolean;
}

export interface BootCount {
  readonly facts: BootFacts;
  /** The hub ends: what comes next is no loss of power. */
  stopped(): void;
}

const uncounted: BootCount = {
  facts: { count: null, powerLosses: null, afterPowerLoss: false },
  stopped: () => undefined,
};

/** `bootId` '': boots cannot be told apart. Throws where the file cannot be written. */
export function countBoot(dir: string, bootId: string): BootCount {
  if (bootId === '') return uncounted;
  const path = join(dir, fileName);
  const state = begun(read(path), bootId);
  write(path, state);
  const { boots, powerLosses, afterPowerLoss } = state;
  return {
    facts: { count: boots, powerLosses, afterPowerLoss },
    stopped: () => write(path, { ...state, stopped: true }),
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

function write(path: string, state: State): void {
  replaceSynced(path, `${JSON.stringify(state)}\n`);
}
