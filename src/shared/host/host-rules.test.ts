/** When each alert fires: test/metrics/alerts-agree.test.ts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Alerts } from '../base/alerts.ts';
import { wellHost } from './host-facts.fixture.ts';
import type { HostFacts } from './host-facts.ts';
import { hostRules } from './host-rules.ts';

const well: HostFacts = { ...wellHost, boots: { count: 9, powerLosses: 4, afterPowerLoss: true } };

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
