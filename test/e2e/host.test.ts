/** The machine as the real hub sees it: over HTTP, in the status, and in what it keeps of boots. */
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { until } from '../../src/shared/base/wait.fixture.ts';
import { temporaryDirectory } from './daemon.ts';
import { startBoth } from './hub.ts';
import { runCli } from './run-cli.ts';

interface Facts {
  readonly memory: { readonly totalBytes: number | null };
  readonly disk: { readonly freeBytes: number | null };
  readonly clock: string;
  readonly boots: { readonly count: number; readonly powerLosses: number; readonly afterPowerLoss: boolean };
}

interface Kept {
  readonly bootId: string;
  readonly stopped: boolean;
}

test('the hub knows its machine, tells it, and counts losses of power by boots and not by its own deaths', async () => {
  const dir = temporaryDirectory();
  const timesync = join(dir, 'timesync');
  mkdirSync(timesync);
  const state = join(dir, 'data/host-state.json');
  const config = { device: { time_sync_file: join(timesync, 'synchronized') } };
  const first = await startBoth({ dir, config });
  const facts = async (hub = first): Promise<Facts> => (await hub.http('GET', '/api/v1/admin/host')).body as Facts;
  await until('a look at the memory', async () => ((await facts()).memory.totalBytes ?? 0) > 0);
  const { disk, clock, boots } = await facts();
  assert.ok((disk.freeBytes ?? 0) > 0);
  assert.deepEqual([clock, boots], ['unsynced', { count: 1, powerLosses: 0, afterPowerLoss: false }]);
  writeFileSync(join(timesync, 'synchronized'), '');
  await until('the clock is known', async () => (await facts()).clock === 'synced');
  const status = await runCli(['status', '--config', first.configFile]);
  assert.match(status.stdout, /^Host +temperature .* memory \S+ \S+ of \S+ \S+ available/m);
  assert.match(status.stdout, /clock set, power lost 0 times in 1 boots$/m);
  const text = String((await first.http('GET', '/metrics')).body);
  assert.match(text, /^lineside_host_clock_synced 1$/m);

  await first.kill();
  await until('another hub', () => first.logLines.filter((line) => / info hub ready /.test(line)).length === 2);
  assert.equal((await facts()).boots.powerLosses, 0, 'a death of the hub alone');
  assert.equal(await first.stop(), 0);
  const kept = JSON.parse(readFileSync(state, 'utf8')) as Kept;
  assert.equal(kept.stopped, true);

  // As the boot before left it when the plug was pulled.
  writeFileSync(state, JSON.stringify({ ...kept, bootId: 'the boot before', stopped: false }));
  const second = await startBoth({ dir });
  const after = await facts(second);
  assert.deepEqual(after.boots, { count: 2, powerLosses: 1, afterPowerLoss: true });
  assert.equal(await second.stop(), 0);
});
