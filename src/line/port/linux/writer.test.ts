import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../../../shared/base/fake-clock.fixture.ts';
import { TtyWriter } from './writer.ts';

const never = new AbortController().signal;

/** A kernel that has room for so many bytes. */
function setup(room: number) {
  const clock = new FakeClock();
  const kernel = { room, taken: [] as number[], calls: 0, fault: undefined as Error | undefined };
  const deaths: Error[] = [];
  const writer = new TtyWriter({
    clock,
    onDead: (cause) => deaths.push(cause),
    write: (data) => {
      kernel.calls += 1;
      if (kernel.fault !== undefined) throw kernel.fault;
      const taken = Math.min(data.length, kernel.room);
      kernel.room -= taken;
      kernel.taken.push(...data.subarray(0, taken));
      return taken;
    },
  });
  return { clock, kernel, deaths, writer };
}

test('bytes that fit are written before write returns', () => {
  const { writer, kernel } = setup(100);
  void writer.write(Uint8Array.of(1, 2, 3), never);
  assert.deepEqual(kernel.taken, [1, 2, 3]);
});

test('continues when there is room again, with the very bytes', async () => {
  const { writer, kernel, clock } = setup(2);
  const result = writer.write(Uint8Array.of(1, 2, 3, 4, 5), never);
  assert.deepEqual(kernel.taken, [1, 2]);
  kernel.room = 10;
  clock.advance(1);
  assert.deepEqual(await result, { accepted: 5, error: undefined });
  assert.deepEqual(kernel.taken, [1, 2, 3, 4, 5]);
  assert.equal(clock.pendingTimers, 0);
});

test('a stalled line is asked ever less often', () => {
  const { writer, kernel, clock } = setup(1);
  void writer.write(Uint8Array.of(1, 2), never);
  clock.advance(1_000);
  const first = kernel.calls;
  clock.advance(1_000);
  const calls = kernel.calls - first;
  assert.ok(calls >= 15 && calls <= 32, `${calls} calls in a second`);
});

test('the first byte of a write that waited comes after what the sockets have to say', async () => {
  const { writer, kernel, clock } = setup(0);
  const cancel = new AbortController();
  const result = writer.write(Uint8Array.of(1), never, cancel.signal);
  kernel.room = 10;
  clock.advance(1);
  assert.deepEqual(kernel.taken, []);
  cancel.abort();
  assert.equal((await result).accepted, 0);
  await new Promise(setImmediate);
  assert.deepEqual(kernel.taken, []);
});

test('ends on the signal with the number of bytes that went out', async () => {
  const { writer, kernel, clock } = setup(2);
  const abort = new AbortController();
  const result = writer.write(Uint8Array.of(1, 2, 3), abort.signal);
  abort.abort();
  const { accepted, error } = await result;
  assert.equal(accepted, 2);
  assert.match(String(error), /ended by its caller/);
  assert.equal(clock.pendingTimers, 0);
  kernel.room = 10;
  assert.deepEqual(await writer.write(Uint8Array.of(9), never), { accepted: 1, error: undefined });
});

test('a signal that has fired already sends nothing', async () => {
  const { writer, kernel } = setup(10);
  const { accepted, error } = await writer.write(Uint8Array.of(1), AbortSignal.abort());
  assert.equal(accepted, 0);
  assert.ok(error);
  assert.equal(kernel.calls, 0);
});

test('a write error ends this write and all later ones, and is reported to the device once', async () => {
  const { writer, kernel, deaths, clock } = setup(2);
  const result = writer.write(Uint8Array.of(1, 2, 3), never);
  kernel.fault = Object.assign(new Error('EIO'), { code: 'EIO' });
  clock.advance(1);
  const { accepted, error } = await result;
  assert.deepEqual([accepted, deaths.length], [2, 1]);
  assert.match(String(error), /EIO/);
  const later = await writer.write(Uint8Array.of(1), never);
  assert.deepEqual([later.accepted, later.error], [0, error]);
});

test('ending the writer ends the write under way', async () => {
  const { writer } = setup(1);
  const result = writer.write(Uint8Array.of(1, 2), never);
  const closed = new Error('closed');
  writer.end(closed);
  assert.deepEqual(await result, { accepted: 1, error: closed });
});

test('a long write gives the event loop its turn', async () => {
  const { writer, kernel } = setup(1_000_000);
  const result = writer.write(new Uint8Array(100_000), never);
  assert.ok(kernel.taken.length <= 16_384);
  assert.deepEqual(await result, { accepted: 100_000, error: undefined });
});
