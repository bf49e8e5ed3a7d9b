import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PacketBuffer } from './receive-buffer.ts';

const roomy = { maxBytes: 1 << 20, maxPackets: 65_536 };
const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);

describe('the receive buffer', () => {
  it('gives back what went in, numbered from 1 and in order; when it is full the oldest are dropped, and the next taker learns how many', () => {
    const step = fc.option(fc.uint8Array({ maxLength: 9_000 }), { nil: 'take' as const });
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 300 }),
        fc.integer({ min: 1, max: 20_000 }),
        fc.integer({ min: 1, max: 100 }),
        (steps, maxBytes, maxPackets) => {
          const buffer = new PacketBuffer(0, { maxBytes, maxPackets });
          const model: { seqId: number; payload: Uint8Array; receivedAtMs: number }[] = [];
          const bytesIn = (packets: readonly { payload: Uint8Array }[]): number =>
            packets.reduce((sum, { payload }) => sum + payload.length, 0);
          let seqId = 0;
          let droppedBefore = 0;
          const take = (): void => {
            const oldest = model.shift();
            assert.deepEqual(buffer.take(), oldest && { ...oldest, droppedBefore });
            if (oldest !== undefined) droppedBefore = 0;
          };
          for (const one of [...steps, ...Array(steps.length + 1).fill('take')]) {
            if (one === 'take') take();
            else {
              seqId += 1;
              model.push({ seqId, payload: Uint8Array.from(one), receivedAtMs: 10 * seqId });
              const fit = model.findIndex(
                (_, i) => bytesIn(model.slice(i)) <= maxBytes && model.length - i <= maxPackets,
              );
              const dropped = model.splice(0, fit === -1 ? model.length : fit);
              droppedBefore += dropped.length;
              const told = { packets: dropped.length, bytes: bytesIn(dropped) };
              assert.deepEqual(buffer.add(one, 10 * seqId), told);
            }
            assert.deepEqual([buffer.packets, buffer.bytes], [model.length, bytesIn(model)]);
          }
        },
      ),
    );
  });

  it('frames exactly N bytes whatever the chunks were, and the rest waits', () => {
    const input = fc.record({
      size: fc.integer({ min: 1, max: 300 }),
      chunks: fc.array(fc.uint8Array({ minLength: 1, maxLength: 4_096 }), { maxLength: 12 }),
    });
    fc.assert(
      fc.property(input, ({ size, chunks }) => {
        const buffer = new PacketBuffer(size, roomy);
        const all = Buffer.concat(chunks);
        for (const chunk of chunks) buffer.add(chunk, 1);
        assert.equal(buffer.packets, Math.floor(all.length / size));
        for (let i = 0; i < Math.floor(all.length / size); i += 1)
          assert.deepEqual(Buffer.from(buffer.take()?.payload ?? []), all.subarray(i * size, (i + 1) * size));
        assert.equal(buffer.take(), undefined);
        assert.equal(buffer.bytes, 0);
      }),
      { numRuns: 100 },
    );
  });

  it('takes a chunk of one-byte packets, thousands at a time, without losing one', () => {
    const buffer = new PacketBuffer(1, roomy);
    for (let round = 0; round < 5; round += 1) buffer.add(new Uint8Array(4_096).fill(round), 1);
    assert.equal(buffer.packets, 5 * 4_096);
    for (let i = 0; i < 5 * 4_096; i += 1) assert.equal(buffer.take()?.seqId, i + 1);
  });

  it('does not glue the beginning of a packet to the bytes of another connection', () => {
    const buffer = new PacketBuffer(4, roomy);
    buffer.add(bytes(1, 2, 3), 1);
    buffer.restartFraming();
    buffer.add(bytes(5, 6, 7, 8), 2);
    assert.deepEqual(Buffer.from(buffer.take()?.payload ?? []), Buffer.from([5, 6, 7, 8]));
  });
});
