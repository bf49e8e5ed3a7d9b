import type { HostFacts } from './host-facts.ts';

/** A machine with which nothing is wrong. */
export const wellHost: HostFacts = {
  bootId: 'boot',
  uptimeSeconds: 90_000,
  ageSeconds: 1,
  temperatureCelsius: 51.5,
  throttled: 'no',
  underVoltage: 'no',
  memory: { totalBytes: 1_000, availableBytes: 500 },
  load: { averages: [0.5, 0.4, 0.3], processors: 4, usedPercent: 12.5 },
  disk: {
    totalBytes: 1_000,
    freeBytes: 500,
    writtenBytes: 1,
    writtenBytesEver: 2,
    lifeUsedPercent: 10,
    reserve: 'normal',
  },
  clock: 'synced',
  boots: { count: 5, powerLosses: 2, afterPowerLoss: false },
  slot: { name: 'a', trying: false, dataLost: false, updateFailed: false },
};
