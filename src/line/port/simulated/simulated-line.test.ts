import assert from 'node:assert/strict';
import { lstat, mkdtemp, readlink, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../../shared/base/clock.ts';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { until } from '../../../shared/base/wait.fixture.ts';
import { createInventory } from '../inventory.ts';
import type { Device } from '../linux/device.ts';
import { eightNone, never, openDescriptors, pattern } from '../linux/pty-rig.fixture.ts';
import { openTty } from '../linux/tty-device.ts';
import { SIMULATED_DESCRIPTION, startSimulatedLine } from './simulated-line.ts';

async function setup(t: TestContext, clock = new FakeClock()) {
  const parent = await mkdtemp(join(tmpdir(), 'sim-'));
  const runtimeDir = join(parent, 'run');
  const line = await startSimulatedLine({ runtimeDir, clock });
  t.after(async () => {
    await line.close();
    await rm(parent, { recursive: true });
  });
  const inventory = createInventory({
    extraPorts: [line.portName],
    descriptions: { [line.portName]: SIMULATED_DESCRIPTION },
  });
  const heard = { text: '' };
  const open = async (): Promise<Device> => {
    const port = await inventory.find(line.portName);
    assert.ok(port);
    const device = await openTty(port, eightNone);
    device.start({
      data: (bytes) => void (heard.text += Buffer.from(bytes).toString('latin1')),
      lost: (cause) => assert.fail(cause),
    });
    return device;
  };
  return { line, inventory, runtimeDir, clock, heard, open };
}

test('is listed under a name that stays, with its description', async (t) => {
  const { line, inventory, runtimeDir } = await setup(t);
  assert.equal(line.portName, join(runtimeDir, 'sim0'));
  const port = (await inventory.list()).find((one) => one.portName === line.portName);
  assert.deepEqual([port?.portName, port?.description, port?.isPty], [line.portName, 'Simulated line', true]);
});

test('reports each second and answers commands', async (t) => {
  const { clock, heard, open } = await setup(t);
  const device = await open();
  clock.advance(1_000);
  await until('a report', () => heard.text.startsWith('$SIM,000001,TEMP,'));
  await device.write(Buffer.from('PING\r\n'), never);
  await until('an answer', () => heard.text.endsWith('PONG\r\n'));
  await device.write(Buffer.from('SET RATE 100\r\n'), never);
  await until('the answer', () => heard.text.endsWith('OK\r\n'));
  clock.advance(100);
  await until('a report at the new rate', () => heard.text.includes('$SIM,000002'));
  await device.close();
});

test('lives on through close and open, and has no old reports for whoever comes later', async (t) => {
  const { clock, heard, open } = await setup(t);
  for (let round = 0; round < 3; round++) {
    clock.advance(3_600_000);
    heard.text = '';
    const device = await open();
    await device.write(Buffer.from('PING\r\n'), never);
    await until('an answer', () => heard.text.endsWith('PONG\r\n'));
    assert.equal(heard.text, 'PONG\r\n');
    await device.close();
  }
});

test('takes megabytes of noise without blocking, and answers afterwards', async (t) => {
  const { heard, open } = await setup(t, new FakeClock());
  const device = await open();
  assert.equal((await device.write(pattern(1_000_000), never)).error, undefined);
  await until('an answer', () => {
    void device.write(Buffer.from('\r\nPING\r\n'), never);
    return heard.text.includes('PONG');
  });
  await device.close();
});

test('replaces the link of an earlier run, takes its own away, and leaves nothing open', async (t) => {
  const parent = await mkdtemp(join(tmpdir(), 'sim-'));
  t.after(() => rm(parent, { recursive: true }));
  const link = join(parent, 'sim0');
  await symlink('/dev/pts/999999', link);
  const before = openDescriptors();
  const line = await startSimulatedLine({ runtimeDir: parent, clock: systemClock });
  assert.match(await readlink(link), /^\/dev\/pts\/\d+$/);
  await line.close();
  await assert.rejects(lstat(link), { code: 'ENOENT' });
  await until('all is closed', () => openDescriptors() === before);
});

test('fails with the reason when the link cannot be placed, and leaves nothing open', async () => {
  const before = openDescriptors();
  await assert.rejects(startSimulatedLine({ runtimeDir: '/dev/null', clock: systemClock }), { code: /ENOTDIR|EEXIST/ });
  await until('all is closed', () => openDescriptors() === before);
});
