import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Alerts } from '../base/alerts.ts';
import { wellHost } from './host-facts.fixture.ts';
import type { HostFacts } from './host-facts.ts';
import { hostRules } from './host-rules.ts';

const well: HostFacts = { ...wellHost, boots: { count: 9, powerLosses: 4, afterPowerLoss: true } };

const firing = (changes: Partial<HostFacts>): string[] =>
  new Alerts(hostRules).look({ ...well, ...changes }, 0).map(({ name, severity }) => `${name} ${severity}`);

test('each alert fires at its limit and not before, and never for what is not known', () => {
  const disk = (changes: Partial<HostFacts['disk']>): Partial<HostFacts> => ({ disk: { ...well.disk, ...changes } });
  const memory = (availableBytes: number | null): Partial<HostFacts> => ({
    memory: { totalBytes: 1_000, availableBytes },
  });
  const table: readonly (readonly [Partial<HostFacts>, ...string[]])[] = [
    [{}],
    [{ temperatureCelsius: 79.9 }],
    [{ temperatureCelsius: 80 }, 'HostTemperatureHigh warning'],
    [{ temperatureCelsius: null }],
    [{ underVoltage: 'yes' }, 'HostUnderVoltage critical'],
    [{ throttled: 'yes' }, 'HostThrottled warning'],
    [{ underVoltage: 'unknown', throttled: 'unknown' }],
    [memory(100)],
    [memory(99), 'HostMemoryLow warning'],
    [memory(0), 'HostMemoryLow warning'],
    [memory(null)],
    [disk({ freeBytes: 50 })],
    [disk({ freeBytes: 49 }), 'HostDiskLow critical'],
    [disk({ freeBytes: 0 }), 'HostDiskLow critical'],
    [disk({ freeBytes: null, totalBytes: null })],
    [disk({ lifeUsedPercent: 80 })],
    [disk({ lifeUsedPercent: 90 }), 'HostCardWorn critical'],
    [disk({ lifeUsedPercent: null, reserve: 'unknown' })],
    [disk({ lifeUsedPercent: null, reserve: 'warning' }), 'HostCardWorn critical'],
    [{ clock: 'unsynced', uptimeSeconds: 100_000 }, 'HostClockNotSynced warning'],
    [{ clock: 'unsynced', uptimeSeconds: 600, boots: { ...well.boots, afterPowerLoss: false } }],
    [{ clock: 'unknown' }],
    [{ slot: { name: 'a', trying: true, dataLost: true, updateFailed: false } }, 'HostDataLost critical'],
    [{ slot: { name: 'a', trying: false, dataLost: false, updateFailed: true } }, 'HostUpdateFailed warning'],
    [{ slot: null }],
    [{ uptimeSeconds: 86_399 }, 'HostPowerLoss info'],
    [{ uptimeSeconds: 86_399, boots: { count: 1, powerLosses: 0, afterPowerLoss: false } }],
  ];
  for (const [changes, ...expected] of table) assert.deepEqual(firing(changes), expected, JSON.stringify(changes));
});

test('each says what is wrong in words and numbers', () => {
  const all = new Alerts(hostRules).look(
    {
      ...well,
      uptimeSeconds: 700,
      temperatureCelsius: 84.2,
      throttled: 'yes',
      underVoltage: 'yes',
      memory: { totalBytes: 2 ** 30, availableBytes: 2 ** 20 },
      disk: { ...well.disk, totalBytes: 2 ** 30, freeBytes: 0, lifeUsedPercent: 110, reserve: 'urgent' },
      clock: 'unsynced',
      slot: { name: 'b', trying: false, dataLost: true, updateFailed: true },
    },
    0,
  );
  assert.equal(all.length, hostRules.length);
  const said = all.map(({ summary }) => summary).join('\n');
  for (const part of [
    '84.2 degrees',
    '1 of 1024 MiB of memory',
    '0 of 1024 MiB are free',
    'up to 110 %',
    '11 minutes',
    '4 times',
  ]) {
    assert.ok(said.includes(part), `${part} in ${said}`);
  }
});
