import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestServer } from './server.fixture.ts';

test('the machine is shown to admins and on the Unix socket, as it is', async (t) => {
  const { call, tokens, socketPath, host } = await startTestServer(t);
  const path = '/api/v1/admin/host';
  const hub = { configurationRefused: '', listenerFault: '' };
  assert.deepEqual((await call('GET', path, { token: tokens.admin })).json, { ...host.now, hub });
  host.now = {
    ...host.now,
    temperatureCelsius: null,
    boots: { count: null, powerLosses: null, afterPowerLoss: false },
    slot: { name: 'b', trying: true, dataLost: false, updateFailed: false },
  };
  const { json } = await call('GET', path, { socketPath });
  assert.deepEqual(
    [json.temperatureCelsius, json.slot],
    [null, { name: 'b', trying: true, dataLost: false, updateFailed: false }],
  );
});

test('alerts of the outbox, of webhooks and of the machine are listed together, news too', async (t) => {
  const { ask, host, outbox, webhooks } = await startTestServer(t);
  host.standing = [{ name: 'HostPowerLoss', severity: 'info', forSeconds: 5, summary: 'power was lost', value: 2 }];
  const items = [...outbox.standing, ...webhooks.standing, ...host.standing];
  assert.equal(items.length, 3);
  assert.deepEqual((await ask('GET', '/api/v1/alerts')).json, { items, nextCursor: null });
});

test('metrics of the machine: a number for each known figure, no series for an unknown one', async (t) => {
  const { call, host } = await startTestServer(t);
  const series = async (): Promise<Map<string, number>> => {
    const { text } = await call('GET', '/metrics');
    const found = [...text.matchAll(/^lineside_host_(\w+) (\S+)$/gm)];
    return new Map(found.map(([, name = '', value]) => [name, Number(value)]));
  };
  const { disk } = host.now;
  host.now = {
    ...host.now,
    underVoltage: 'unknown',
    disk: { ...disk, lifeUsedPercent: null, reserve: 'unknown', writtenBytesEver: null },
    slot: null,
  };
  const before = await series();
  const expected = {
    uptime_seconds: 90_000,
    temperature_celsius: 51.5,
    throttled: 0,
    memory_bytes: 1_000,
    memory_available_bytes: 500,
    load1: 0.5,
    processors: 4,
    cpu_used_percent: 12.5,
    disk_bytes: 1_000,
    disk_free_bytes: 500,
    card_written_bytes: 1,
    clock_synced: 1,
    boots: 5,
    power_losses: 2,
    after_power_loss: 0,
  };
  assert.deepEqual(Object.fromEntries(before), expected);
  host.now = {
    ...host.now,
    temperatureCelsius: null,
    underVoltage: 'yes',
    clock: 'unsynced',
    disk: { ...disk, lifeUsedPercent: 90, reserve: 'warning', writtenBytesEver: 7 },
    slot: { name: 'a', trying: false, dataLost: true, updateFailed: true },
  };
  const after = await series();
  assert.ok(!after.has('temperature_celsius'));
  for (const [name, value] of Object.entries({
    under_voltage: 1,
    clock_synced: 0,
    card_life_used_percent: 90,
    card_reserve_low: 1,
    disk_written_ever_bytes: 7,
    data_lost: 1,
    update_failed: 1,
    slot_trying: 0,
  })) {
    assert.equal(after.get(name), value, name);
  }
});
