import assert from 'node:assert/strict';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FakeClock } from '../base/fake-clock.fixture.ts';
import { recordingLogger } from '../base/logger.fixture.ts';
import { temporaryDirectory } from '../base/temporary.fixture.ts';
import { until } from '../base/wait.fixture.ts';
import { type ClockState, createClockSync } from './clock-sync.ts';
import type { SensorRoots } from './sensors.ts';
import { pi4, piVoltage, sysTree } from './sys-tree.fixture.ts';
import { countBoot, createHostTelemetry, type HostTelemetry } from './telemetry.ts';

interface Box {
  readonly telemetry: HostTelemetry;
  readonly clock: FakeClock;
  readonly dir: string;
  readonly warnings: string[];
}

function boxOf(
  t: TestContext,
  roots: SensorRoots,
  options: { dir?: string; bootId?: string; state?: ClockState } = {},
): Box {
  const { dir = temporaryDirectory(t) } = options;
  const clock = new FakeClock();
  const { logger, lines: warnings } = recordingLogger();
  const clockSync = {
    ...createClockSync({ file: '', clock }),
    bootId: options.bootId ?? 'boot',
    state: () => options.state ?? 'unknown',
  };
  const telemetry = createHostTelemetry({ dir, clockSync, clock, logger, roots, uptimeSeconds: () => 1_000 });
  t.after(() => telemetry.stop());
  return { telemetry, clock, dir, warnings };
}

test('before the first look every figure is unknown, and no alert stands', (t) => {
  const { telemetry } = boxOf(t, sysTree(t, pi4));
  const { temperatureCelsius, underVoltage, memory, disk, boots } = telemetry.facts();
  assert.deepEqual(
    [temperatureCelsius, underVoltage, memory.totalBytes, disk.freeBytes],
    [null, 'unknown', null, null],
  );
  assert.deepEqual([boots.count, telemetry.alerts()], [null, []]);
});

test('the facts of this machine are there after the start: memory, load, disk', async (t) => {
  const { telemetry, warnings } = boxOf(t, sysTree(t, pi4), { state: 'unsynced' });
  await telemetry.start();
  const { memory, load, disk, temperatureCelsius, boots, clock, uptimeSeconds } = telemetry.facts();
  assert.ok((memory.totalBytes ?? 0) > 2 ** 27 && (memory.availableBytes ?? 0) > 0, JSON.stringify(memory));
  assert.ok((memory.availableBytes ?? 0) < (memory.totalBytes ?? 0));
  assert.ok(load.processors > 0 && load.averages.length === 3);
  assert.ok((disk.freeBytes ?? 0) > 0 && (disk.freeBytes ?? 0) <= (disk.totalBytes ?? 0));
  assert.deepEqual([temperatureCelsius, boots.count, clock, uptimeSeconds], [48.7, 1, 'unsynced', 1_000]);
  assert.deepEqual(
    telemetry
      .alerts()
      .map(({ name }) => name)
      .filter((name) => !/Memory|Disk/.test(name)),
    ['HostClockNotSynced'],
  );
  assert.deepEqual(warnings, []);
});

test('the machine is sampled every half minute, and not after the stop', async (t) => {
  const roots = sysTree(t, piVoltage);
  const { telemetry, clock } = boxOf(t, roots);
  await telemetry.start();
  writeFileSync(join(roots.sys, 'class/hwmon/hwmon1/in0_lcrit_alarm'), '1\n');
  clock.advance(29_000);
  assert.equal(telemetry.facts().underVoltage, 'no');
  assert.equal(telemetry.facts().ageSeconds, 29);
  clock.advance(1_000);
  await until('the second look', () => telemetry.facts().underVoltage === 'yes');
  assert.ok(telemetry.alerts().some(({ name, severity }) => name === 'HostUnderVoltage' && severity === 'critical'));
  await until('the timer of the third', () => clock.pendingTimers === 1);
  telemetry.stop();
  assert.equal(clock.pendingTimers, 0);
});

test('if nothing can be read or written, the start continues and reports it once', async (t) => {
  const { telemetry, clock, warnings } = boxOf(t, sysTree(t, {}), { dir: '/proc/nowhere' });
  await telemetry.start();
  const { disk, boots, temperatureCelsius } = telemetry.facts();
  assert.deepEqual([disk.totalBytes, boots.count, temperatureCelsius], [null, null, null]);
  assert.match(warnings[0] ?? '', /power failures are not counted/);
  assert.match(warnings[1] ?? '', /telemetry of the host has no disk/);
  clock.advance(30_000);
  await until('the second look', () => telemetry.facts().ageSeconds === 0);
  assert.equal(warnings.length, 2);
});

test('a boot after one in which the hub was not stopped follows a loss of power', (t) => {
  const dir = temporaryDirectory(t);
  // Each run of the hub: its boot, how it ends, and its report of the boots so far.
  const runs: readonly (readonly [
    bootId: string,
    ends: 'stopped' | 'killed',
    count: number,
    losses: number,
    after: boolean,
  ])[] = [
    ['a', 'stopped', 1, 0, false],
    ['a', 'killed', 1, 0, false],
    ['a', 'stopped', 1, 0, false],
    ['b', 'killed', 2, 0, false],
    ['c', 'killed', 3, 1, true],
    ['c', 'stopped', 3, 1, true],
    ['d', 'stopped', 4, 1, false],
    ['d', 'killed', 4, 1, false],
    ['e', 'killed', 5, 2, true],
    ['f', 'stopped', 6, 3, true],
    ['g', 'stopped', 7, 3, false],
  ];
  for (const [bootId, ends, count, powerLosses, afterPowerLoss] of runs) {
    const boot = countBoot(dir, bootId);
    assert.deepEqual(boot.facts, { count, powerLosses, afterPowerLoss }, `${bootId} ${ends}`);
    if (ends === 'stopped') boot.stopped();
  }
  assert.deepEqual(readdirSync(dir), ['host-state.json']);
  assert.equal(statSync(join(dir, 'host-state.json')).mode & 0o777, 0o600);
});

test('a file that makes no sense is replaced, and half a new one is not read', (t) => {
  const dir = temporaryDirectory(t);
  const path = join(dir, 'host-state.json');
  for (const content of ['', '{', 'null', '[]', '{"bootId":"a"}', '{"bootId":1,"stopped":true,"boots":"many"}']) {
    writeFileSync(path, content);
    assert.deepEqual(countBoot(dir, 'b').facts, { count: 1, powerLosses: 0, afterPowerLoss: false }, content);
  }
  writeFileSync(`${path}.new`, '{"bootId":"b","sto');
  assert.deepEqual(countBoot(dir, 'c').facts, { count: 2, powerLosses: 1, afterPowerLoss: true });
});

test('without a boot id nothing is counted and nothing written; a directory that is not there is an error', (t) => {
  const dir = temporaryDirectory(t);
  const boot = countBoot(dir, '');
  boot.stopped();
  assert.deepEqual([boot.facts.count, readdirSync(dir)], [null, []]);
  assert.throws(() => countBoot(join(dir, 'nowhere'), 'a'), { code: 'ENOENT' });
});
