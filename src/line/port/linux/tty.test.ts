import assert from 'node:assert/strict';
import { createHash, type Hash } from 'node:crypto';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { ReadStream } from 'node:tty';
import { pause, systemClock } from '../../../shared/base/clock.ts';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { duplicate } from '../../../shared/base/libc.ts';
import { until, within } from '../../../shared/base/wait.fixture.ts';
import type { Pty } from '../simulated/simulated-line.ts';
import { guardPort } from './port-guard.ts';
import {
  eightNone,
  never,
  openDescriptors,
  openRig,
  pattern,
  ptyOf,
  ptyPort,
  type Rig,
  sha256,
  watchedBy,
} from './pty-rig.fixture.ts';
import { settingsOf } from './termios.ts';
import { CLOSE_LIMIT_MS, openTty, TtyDevice } from './tty.ts';
import { getTermios } from './tty-ioctl.ts';

const MIB = 1_048_576;
/** termios(3). */
const PARMRK = 0o10;

/** What the far end reads from now on. */
function counted(pty: Pty): { bytes: number; readonly hash: Hash } {
  const peer = { bytes: 0, hash: createHash('sha256') };
  pty.onData((bytes) => {
    peer.bytes += bytes.length;
    peer.hash.update(bytes);
  });
  return peer;
}

test('every byte value arrives as it was sent, both ways at once, for megabytes', async (t) => {
  const { pty, device, received } = await openRig(t);
  const [inward, outward] = [pattern(4 * MIB), pattern(2 * MIB + 13).reverse()];
  const peer = counted(pty);
  const [sent, got] = await within(
    'both directions',
    Promise.all([device.write(outward, never), pty.write(inward)]),
    12_000,
  );
  assert.deepEqual([sent.accepted, got.accepted], [outward.length, inward.length]);
  await until('all arrived', () => received.bytes === inward.length && peer.bytes === outward.length);
  assert.equal(received.hash.digest('hex'), sha256(inward));
  assert.equal(peer.hash.digest('hex'), sha256(outward));
  await device.close();
});

test('line errors come and go in the midst of a stream, and while reading pauses: every byte arrives as it was sent', async (t) => {
  const { pty, device, received } = await openRig(t);
  const settings = watchedBy(t, pty);
  const marks = (): boolean => (getTermios(settings).iflag & PARMRK) !== 0;
  // A quarter of it is FF, which the kernel doubles.
  const bytes = pattern(20_000).map((byte) => (byte < 64 ? 255 : byte));
  for (let at = 0; at < bytes.length; at += 100) {
    const paused = at % 3_000 === 0;
    if (paused) device.pauseReading();
    await pty.write(bytes.subarray(at, at + 100));
    await until('it has arrived', () => paused || pty.unread() > 0 || received.bytes >= at + 100);
    device.markErrors(at % 200 === 0);
    assert.equal(marks(), at % 200 === 0);
    if (at % 200 === 0) device.configure({ ...eightNone, baudRate: 9_600 });
    assert.equal(marks(), at % 200 === 0, 'settings that change leave it as it is');
    if (paused) device.resumeReading();
  }
  await until('all arrived', () => received.bytes >= bytes.length);
  assert.equal(received.hash.digest('hex'), sha256(bytes));
  await device.close();
});

test('line errors are switched, and what arrived is taken, while reading pauses: it comes once', async (t) => {
  const { pty, device, received } = await openRig(t);
  const sent: number[] = [];
  const write = async (): Promise<void> => {
    sent.push(1, 255, 255, 2);
    await pty.write(Buffer.from([1, 255, 255, 2]));
  };
  // Reading that has not begun cannot pause.
  await write();
  await until('the first arrives', () => received.bytes === sent.length);
  for (const step of [() => device.markErrors(true), () => device.takeArrived(), () => device.markErrors(false)]) {
    device.pauseReading();
    await write();
    await until('it is there', () => pty.unread() > 0);
    step();
    assert.equal(received.bytes, sent.length);
    device.resumeReading();
    await write();
    await until('it arrives', () => received.bytes >= sent.length);
  }
  assert.equal(received.hash.digest('hex'), sha256(Buffer.from(sent)));
  await device.close();
});

test('bytes that arrived between open and start are not lost', async (t) => {
  const pty = ptyOf(t);
  const device = await openTty(ptyPort(pty), eightNone);
  await pty.write(Buffer.from('early'));
  let text = '';
  device.start({ data: (bytes) => void (text += Buffer.from(bytes).toString()), lost: () => {} });
  await until('the early bytes', () => text === 'early');
  await device.close();
});

test('a stalled write continues where it stopped when the peer reads again', async (t) => {
  const { pty, device } = await openRig(t);
  const data = pattern(300_000);
  let ended = false;
  const write = device.write(data, never).finally(() => void (ended = true));
  // Far more than a PTY holds: this write cannot complete, however long one waits.
  await pause(systemClock, 50);
  assert.equal(ended, false);
  const peer = counted(pty);
  assert.deepEqual(await within('the write', write), { accepted: data.length, error: undefined });
  await until('all arrived', () => peer.bytes === data.length);
  assert.equal(peer.hash.digest('hex'), sha256(data));
  await device.close();
});

test('paused reading holds the bytes back, and an unplug is still noticed', async (t) => {
  const { pty, device, received, lost } = await openRig(t);
  await pty.write(Buffer.from('a'));
  await until('the first byte', () => received.bytes === 1);
  device.pauseReading();
  await pty.write(new Uint8Array(1_000_000), AbortSignal.timeout(100));
  const held = received.bytes;
  assert.ok(held < 100_000, `${held} bytes came through`);
  device.resumeReading();
  await until('the rest', () => received.bytes > 4_000);
  device.pauseReading();
  pty.close();
  await within('the loss', lost);
  await device.close();
});

test('close is idempotent, and a closed device does nothing more', async (t) => {
  const { device, losses } = await openRig(t);
  await Promise.all([device.close(), device.close()]);
  await device.close();
  const { accepted, error } = await device.write(Uint8Array.of(1), never);
  assert.equal(accepted, 0);
  assert.ok(error);
  assert.throws(() => device.modemLines(), { code: 'NOT_CONNECTED' });
  assert.equal(device.kernelCounters(), undefined);
  device.pauseReading();
  device.resumeReading();
  assert.deepEqual(losses, []);
});

test('200 times open, talk, close leave no descriptor behind', async (t) => {
  const pty = ptyOf(t);
  let heard = 0;
  pty.onData((bytes) => void (heard += bytes.length));
  const round = async (): Promise<void> => {
    const device = await openTty(ptyPort(pty), eightNone);
    device.start({ data: () => {}, lost: (cause) => assert.fail(cause) });
    const before = heard;
    await device.write(Uint8Array.of(1, 2, 3), never);
    await until('the bytes', () => heard === before + 3);
    await device.close();
  };
  await round();
  const before = openDescriptors();
  for (let i = 0; i < 200; i++) await round();
  assert.equal(openDescriptors(), before);
});

test('ten refused opens leave no descriptor behind', async (t) => {
  const { pty, device } = await openRig(t);
  const before = openDescriptors();
  // One that is left is found at once; each open looks through the descriptors of all processes.
  for (let i = 0; i < 10; i++) await assert.rejects(openTty(ptyPort(pty), eightNone), { code: 'PORT_BUSY' });
  assert.equal(openDescriptors(), before);
  await device.close();
});

test('a PTY has no modem lines, break or counters', async (t) => {
  const { device } = await openRig(t);
  assert.throws(() => device.modemLines(), { code: 'UNSUPPORTED' });
  assert.throws(() => device.setModemLines({ dtr: true }), { code: 'UNSUPPORTED' });
  await assert.rejects(device.sendBreak(10, AbortSignal.timeout(10_000)), { code: 'UNSUPPORTED' });
  assert.equal(device.kernelCounters(), undefined);
  await device.close();
});

test('the kernel has the rate, also one outside the table', async (t) => {
  const pty = ptyOf(t);
  const fd = watchedBy(t, pty);
  for (const baudRate of [50, 9_600, 31_250, 250_000, 4_000_000, 12_000_000]) {
    const device = await openTty(ptyPort(pty), { ...eightNone, baudRate });
    assert.equal(settingsOf(getTermios(fd), false).baudRate, baudRate);
    assert.deepEqual(device.effective, { ...eightNone, baudRate, unverified: true, driver: 'pty_slave' });
    await device.close();
  }
});

test('close ends within its limit although the last close of the port hangs', async (t) => {
  const pty = ptyOf(t);
  const clock = new FakeClock();
  const port = ptyPort(pty);
  const guard = await guardPort(port);
  // Of the master, which libuv does not reopen: no descriptor is left over.
  const stream = new ReadStream(duplicate(pty.masterFd));
  const hanging = Promise.withResolvers<void>();
  const reached = Promise.withResolvers<void>();
  const bound = {
    close: () => {
      reached.resolve();
      return hanging.promise;
    },
  };
  const effective = { ...eightNone, unverified: true, driver: '' };
  const device = new TtyDevice({ port, effective, guard, bound, reader: { stream, onBytes() {} }, clock });
  const closing = device.close();
  let ended = false;
  void closing.then(() => void (ended = true));
  await reached.promise;
  clock.advance(CLOSE_LIMIT_MS - 1);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(ended, false);
  clock.advance(1);
  await closing;
  if (!stream.closed) await once(stream, 'close');
  hanging.resolve();
});

// A PTY whose master closes is what an unplugged adapter is to its driver: a hung-up tty.

const ROUNDS = 40;

async function rounds(t: TestContext, unplug: (rig: Rig, round: number) => Promise<void>): Promise<void> {
  const first = await openRig(t);
  await first.device.close();
  first.pty.close();
  const before = openDescriptors();
  for (let round = 0; round < ROUNDS; round++) {
    const rig = await openRig(t);
    await unplug(rig, round);
    await within(`the loss in round ${round}`, rig.lost);
    await rig.device.close();
    assert.equal(rig.losses.length, 1);
  }
  await until('no descriptor is left', () => openDescriptors() <= before);
}

test('an unplug while idle is always seen', (t) => rounds(t, async ({ pty }) => pty.close()));

test('an unplug under traffic is always seen', (t) =>
  rounds(t, async ({ pty, received }, round) => {
    const flood = pty.write(pattern(1_000_000));
    await until('traffic', () => received.bytes > round * 2_000);
    pty.close();
    await flood;
  }));

test('an unplug while a write is stalled is always seen, and ends the write', (t) =>
  rounds(t, async ({ pty, device }, round) => {
    const write = device.write(pattern(200_000), never);
    if (round % 2 === 0) await pty.write(pattern(10_000));
    pty.close();
    const { accepted, error } = await within('the write', write);
    assert.ok(error);
    assert.ok(accepted < 200_000);
  }));

test('an unplug between open and start is reported after start', async (t) => {
  const pty = ptyOf(t);
  const device = await openTty(ptyPort(pty), eightNone);
  pty.close();
  const { promise, resolve } = Promise.withResolvers<Error>();
  device.start({ data: () => {}, lost: resolve });
  await within('the loss', promise);
  await device.close();
});

test('no loss is reported once the port was closed', async (t) => {
  const { pty, device, losses } = await openRig(t);
  const closing = device.close();
  pty.close();
  await closing;
  assert.deepEqual(losses, []);
});
