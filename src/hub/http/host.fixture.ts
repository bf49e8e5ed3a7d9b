/** The machine as this room's tests have it: what it says is set by them. */
import type { Alert } from '../../shared/base/alerts.ts';
import type { HostAdmin, HostFacts } from '../../shared/host/host-facts.ts';

export class FakeHost implements HostAdmin {
  now: HostFacts = {
    bootId: 'boot',
    uptimeSeconds: 3_600,
    ageSeconds: 7,
    temperatureCelsius: 51.5,
    throttled: 'no',
    underVoltage: 'unknown',
    memory: { totalBytes: 2 ** 30, availableBytes: 2 ** 29 },
    load: { averages: [0.5, 0.4, 0.3], processors: 4, usedPercent: 12.5 },
    disk: {
      totalBytes: 2 ** 34,
      freeBytes: 2 ** 33,
      writtenBytes: 4_096,
      writtenBytesEver: null,
      lifeUsedPercent: null,
      reserve: 'unknown',
    },
    clock: 'synced',
    boots: { count: 5, powerLosses: 2, afterPowerLoss: false },
    slot: null,
  };
  standing: Alert[] = [];

  facts(): HostFacts {
    return this.now;
  }
  alerts(): readonly Alert[] {
    return this.standing;
  }
}
