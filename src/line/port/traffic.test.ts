import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import fc from 'fast-check';
import { LinesideError } from '../../shared/base/errors.ts';
import { FakeClock } from '../../shared/base/fake-clock.fixture.ts';
import type { Direction } from '../log/entry.ts';
import { configOf } from './line.fixture.ts';
import { newCounters } from './line.ts';
import type { Device } from './linux/tty.ts';
import type { WriteResult } from './linux/writer.ts';
import { PacketBuffer } from './receive-buffer.ts';
import { SendQueue, Traffic } from './traffic.ts';

const YEAR_MS = 365 * 86_400_000;
const GAP_MS = 10;
/** The gap, and 20 characters at 9,600 baud for what a UART may still hold back. */
const QUIET_MS = 31;

const nothingSent = () => Promise.reject(new Error('nothing is sent'));

function lineOf(write: () => Promise<WriteResult>, rxGapMs = GAP_MS) {
  const clock = new FakeClock();
  const packets = new PacketBuffer(0, { maxBytes: 1_024, maxPackets: 10 });
  const stamps: number[] = [];
  const chunks: string[] = [];
  const log = { pressed: false, onRelieved: () => undefined };
  const reading = { paused: false };
  const pauseReading = (): void => void (reading.paused = true);
  const resumeReading = (): void => void (reading.paused = false);
  const device = { write, pauseReading, resumeReading } as Partial<Device> as Device;
  const counters = newCounters();
  const traffic = new Traffic({
    device,
    config: configOf('/dev/x'),
    packets,
    log: Object.assign(log, {
      record: (_dir: Direction, atMs: number, data: Uint8Array) => {
        stamps.push(atMs);
        chunks.push(Buffer.from(data).toString());
      },
    }),
    clock,
    counters,
    last: { receivedMs: 0, sentMs: 0 },
    txLimits: { maxPackets: 10, maxBytes: 1_024 },
    limits: () => ({ maxPayloadBytes: 1_024, rxGapMs, writeTimeoutMs: 1_000 }),
    onDropped: () => undefined,
  });
  return { traffic, clock, packets, stamps, chunks, log, reading, counters };
}

test('the clock is set while a chunk grows: its first byte is stamped by the clock as it is when the chunk is logged', () => {
  const { traffic, clock, packets, stamps } = lineOf(nothingSent);
  const before = clock.wallMs();
  traffic.received(Buffer.from('a'));
  clock.advance(QUIET_MS);
  traffic.received(Buffer.from('b'));
  clock.advance(5);
  clock.stepWall(YEAR_MS);
  traffic.received(Buffer.from('c'));
  clock.advance(QUIET_MS);
  assert.deepEqual(stamps, [before, before + QUIET_MS + YEAR_MS]);
  assert.deepEqual([packets.take()?.receivedAtMs, packets.take()?.receivedAtMs], stamps);
});

test('a small move of the clock changes no stamp', () => {
  const { traffic, clock, stamps } = lineOf(nothingSent);
  const before = clock.wallMs();
  traffic.received(Buffer.from('a'));
  clock.stepWall(-300);
  clock.advance(QUIET_MS);
  assert.deepEqual(stamps, [before]);
});

test('a line of many small reads rests for a millisecond at a time, as long as bytes wait at the end of a rest', () => {
  const { traffic, clock, reading, chunks } = lineOf(nothingSent);
  const read = (text: string): boolean => {
    traffic.received(Buffer.from(text));
    return reading.paused;
  };
  assert.deepEqual([...'abcde'].map(read), [false, false, false, false, true]);
  clock.advance(1);
  assert.equal(reading.paused, false);
  assert.equal(read('f'), true, 'it waited');
  clock.advance(1);
  assert.equal(read('x'.repeat(2_049)), false, 'a rest could overrun a line that is so fast');
  clock.advance(1);
  assert.equal(read('g'), false, 'nothing waited');
  clock.advance(QUIET_MS);
  assert.deepEqual(chunks, [`abcdef${'x'.repeat(2_049)}g`], 'a rest is no silence');
});

test('a rest ends when the log has room, and not at all when the traffic has ended', () => {
  const { traffic, clock, reading, log, counters } = lineOf(nothingSent);
  for (const text of 'abcde') traffic.received(Buffer.from(text));
  log.pressed = true;
  traffic.relieve();
  clock.advance(1);
  assert.deepEqual([reading.paused, counters.rxPauses], [true, 1]);
  log.pressed = false;
  traffic.relieve();
  assert.equal(reading.paused, false);
  traffic.received(Buffer.from('f'));
  assert.equal(reading.paused, true);
  traffic.end(new LinesideError('NOT_SENT', 'the port was closed'));
  clock.advance(1);
  assert.equal(reading.paused, true);
});

test('where every read is a chunk the line never rests', () => {
  const { traffic, reading, chunks } = lineOf(nothingSent, 0);
  for (const text of 'abcdefgh') traffic.received(Buffer.from(text));
  assert.deepEqual([reading.paused, chunks.length], [false, 8]);
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

test('the process did not run in the midst of a frame: its rest is read after the late timer, and the frame is whole', async () => {
  const { traffic, clock, chunks } = lineOf(nothingSent);
  traffic.received(Buffer.from('first half, '));
  clock.stop(100);
  assert.deepEqual(chunks, []);
  traffic.received(Buffer.from('second half'));
  await turns();
  clock.advance(2 * QUIET_MS);
  assert.deepEqual(chunks, ['first half, second half']);
});

test('nothing more came while the process did not run: the silence counts from the poll that found nothing', async () => {
  const { traffic, clock, chunks } = lineOf(nothingSent);
  traffic.received(Buffer.from('frame'));
  clock.stop(100);
  await turns();
  clock.advance(QUIET_MS - 2);
  assert.deepEqual(chunks, []);
  clock.advance(2);
  assert.deepEqual(chunks, ['frame']);
});

test('reading is paused in the midst of a frame: the pause is no silence', async () => {
  const { traffic, clock, chunks, log } = lineOf(nothingSent);
  log.pressed = true;
  traffic.received(Buffer.from('first half, '));
  clock.advance(500);
  log.pressed = false;
  traffic.relieve();
  traffic.received(Buffer.from('second half'));
  clock.advance(QUIET_MS);
  assert.deepEqual(chunks, ['first half, second half']);
});

/** Turns of the event loop until the ports are read, as after a late timer. */
async function turns(): Promise<void> {
  for (let i = 0; i < 20; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

type Item = ReturnType<typeof item>;
const item = (caller: string, id: number, size = 1) => ({ caller, id, payload: new Uint8Array(size) });
const roomy = { maxPackets: 1_000, maxBytes: 1 << 20 };

describe('the send queue', () => {
  it('lets callers take turns: one who floods delays another by one packet', () => {
    const queue = new SendQueue<Item>(roomy);
    for (let id = 0; id < 5; id += 1) queue.push(item('flood', id));
    queue.push(item('calm', 10));
    queue.push(item('calm', 11));
    assert.deepEqual(
      queue.drain().map((i) => `${i.caller} ${i.id}`),
      ['flood 0', 'calm 10', 'flood 1', 'calm 11', 'flood 2', 'flood 3', 'flood 4'],
    );
  });

  it('is bounded in packets and in bytes, but an empty one takes any packet', () => {
    const byPackets = new SendQueue<Item>({ maxPackets: 2, maxBytes: 100 });
    assert.deepEqual(
      [1, 2, 3].map((id) => byPackets.push(item('a', id))),
      [true, true, false],
    );
    const byBytes = new SendQueue<Item>({ maxPackets: 10, maxBytes: 10 });
    assert.deepEqual(
      [20, 1].map((size) => byBytes.push(item('a', 1, size))),
      [true, false],
    );
    byBytes.next();
    assert.equal(byBytes.push(item('a', 2, 1)), true);
  });

  it('keeps count, each caller in order, through any pushes, turns and removals', () => {
    const step = fc.oneof(
      fc.record({ kind: fc.constant('push' as const), caller: fc.constantFrom('a', 'b', 'c') }),
      fc.record({ kind: fc.constant('next' as const), caller: fc.constant('') }),
      fc.record({ kind: fc.constant('remove' as const), caller: fc.constant('') }),
    );
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const queue = new SendQueue<Item>(roomy);
        const waiting: Item[] = [];
        steps.forEach(({ kind, caller }, id) => {
          if (kind === 'push') {
            const one = item(caller, id);
            assert.equal(queue.push(one), true);
            waiting.push(one);
          } else if (kind === 'next') {
            const one = queue.next();
            assert.equal(one === undefined, waiting.length === 0);
            if (one === undefined) return;
            assert.equal(
              one,
              waiting.find((w) => w.caller === one.caller),
            );
            waiting.splice(waiting.indexOf(one), 1);
          } else if (waiting[0] !== undefined) {
            const one = waiting.splice(waiting.length >> 1, 1)[0] ?? item('', 0);
            assert.equal(queue.remove(one), true);
            assert.equal(queue.remove(one), false);
          }
          assert.equal(queue.packets, waiting.length);
          assert.equal(queue.bytes, waiting.length);
        });
      }),
      { numRuns: 200 },
    );
  });
});
