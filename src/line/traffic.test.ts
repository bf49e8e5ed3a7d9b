import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FakeClock } from '../base/fake-clock.fixture.ts';
import { newCounters } from './counters.ts';
import type { Device, WriteResult } from './device/device.ts';
import { PacketBuffer } from './packets.ts';
import { Traffic } from './traffic.ts';

const YEAR_MS = 365 * 86_400_000;
const GAP_MS = 10;

function lineOf(write: () => Promise<WriteResult>) {
  const clock = new FakeClock();
  const packets = new PacketBuffer(0, { maxBytes: 1_024, maxPackets: 10 });
  const stamps: number[] = [];
  const device = { write, pauseReading: () => undefined, resumeReading: () => undefined } as Partial<Device> as Device;
  const traffic = new Traffic({
    device,
    config: { portName: '/dev/x', baudRate: 9_600, dataBits: 8, parity: 0, stopBits: 0, packetSize: 0 },
    packets,
    log: { record: (_dir, atMs) => void stamps.push(atMs), pressed: false, onRelieved: () => undefined },
    clock,
    counters: newCounters(),
    rxGapMs: GAP_MS,
    txLimits: { maxPackets: 10, maxBytes: 1_024 },
    writeTimeoutMs: 1_000,
    onDropped: () => undefined,
  });
  return { traffic, clock, packets, stamps };
}

test('the clock is set while a chunk grows: its first byte is stamped by the clock as it is when the chunk is logged', () => {
  const { traffic, clock, packets, stamps } = lineOf(() => Promise.reject(new Error('nothing is sent')));
  const before = clock.wallMs();
  traffic.received(Buffer.from('a'));
  clock.advance(GAP_MS);
  traffic.received(Buffer.from('b'));
  clock.advance(5);
  clock.stepWall(YEAR_MS);
  traffic.received(Buffer.from('c'));
  clock.advance(GAP_MS);
  assert.deepEqual(stamps, [before, before + GAP_MS + YEAR_MS]);
  assert.deepEqual([packets.take()?.receivedAtMs, packets.take()?.receivedAtMs], stamps);
});

test('a small move of the clock changes no stamp', () => {
  const { traffic, clock, stamps } = lineOf(() => Promise.reject(new Error('nothing is sent')));
  const before = clock.wallMs();
  traffic.received(Buffer.from('a'));
  clock.stepWall(-300);
  clock.advance(GAP_MS);
  assert.deepEqual(stamps, [before]);
});

test('a packet whose deadline has passed when it arrives is not sent', async () => {
  const { traffic, clock } = lineOf(() => Promise.reject(new Error('it is sent')));
  const { signal } = new AbortController();
  const sent = traffic.send({ payload: Buffer.from('a'), caller: 'c', signal, deadlineMs: clock.monoMs() });
  await assert.rejects(sent, { code: 'WRITE_TIMEOUT' });
});

test('the clock is set while a packet is written: the stamp is that of its beginning, by the new clock', async () => {
  let written: (result: WriteResult) => void = () => undefined;
  const { traffic, clock, stamps } = lineOf(
    () =>
      new Promise((resolve) => {
        written = resolve;
      }),
  );
  const before = clock.wallMs();
  const { signal } = new AbortController();
  const sent = traffic.send({ payload: Buffer.from('a'), caller: 'c', signal, deadlineMs: undefined });
  clock.advance(100);
  clock.stepWall(-YEAR_MS);
  written({ accepted: 1, error: undefined });
  await sent;
  assert.deepEqual(stamps, [before - YEAR_MS]);
});
