/** A PTY whose master closes is what an unplugged adapter is to its driver: a hung-up tty. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until, within } from '../../../shared/base/wait.fixture.ts';
import { openPty } from '../simulated/simulated-line.ts';
import { eightNone, never, openDescriptors, openRig, pattern, ptyPort, type Rig } from './pty-rig.fixture.ts';
import { openTty } from './tty.ts';

const ROUNDS = 40;

async function rounds(unplug: (rig: Rig, round: number) => Promise<void>): Promise<void> {
  await (await openRig().then(closeRig))();
  const before = openDescriptors();
  for (let round = 0; round < ROUNDS; round++) {
    const rig = await openRig();
    await unplug(rig, round);
    await within(`the loss in round ${round}`, rig.lost);
    await rig.device.close();
    assert.equal(rig.losses.length, 1);
  }
  await until('no descriptor is left', () => openDescriptors() <= before);
}

async function closeRig({ device, pty }: Rig): Promise<() => Promise<void>> {
  await device.close();
  pty.close();
  return async () => {};
}

test('an unplug while idle is always seen', () => rounds(async ({ pty }) => pty.close()));

test('an unplug under traffic is always seen', () =>
  rounds(async ({ pty, received }, round) => {
    const flood = pty.write(pattern(1_000_000));
    await until('traffic', () => received.bytes > round * 2_000);
    pty.close();
    await flood;
  }));

test('an unplug while a write is stalled is always seen, and ends the write', () =>
  rounds(async ({ pty, device }, round) => {
    const write = device.write(pattern(200_000), never);
    if (round % 2 === 0) await pty.write(pattern(10_000));
    pty.close();
    const { accepted, error } = await within('the write', write);
    assert.ok(error);
    assert.ok(accepted < 200_000);
  }));

test('an unplug between open and start is told after start', async () => {
  const pty = openPty();
  const device = await openTty(ptyPort(pty), eightNone);
  pty.close();
  const { promise, resolve } = Promise.withResolvers<Error>();
  device.start({ data: () => {}, lost: resolve });
  await within('the loss', promise);
  await device.close();
});

test('no loss is told once the port was closed', async () => {
  const { pty, device, losses } = await openRig();
  const closing = device.close();
  pty.close();
  await closing;
  assert.deepEqual(losses, []);
});
