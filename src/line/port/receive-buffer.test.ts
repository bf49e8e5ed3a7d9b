import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PacketBuffer, PacketRing } from './receive-buffer.ts';

const roomy = { maxBytes: 1 << 20, maxPackets: 65_536 };
const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);

describe('the receive buffer', () => {
  it('gives chunks as packets when any size goes, and counts them from 1', () => {
    const buffer = new PacketBuffer(0, roomy);
    buffer.add(bytes(1, 2), 10);
    buffer.add(bytes(3), 11);
    assert.deepEqual(buffer.take(), { seqId: 1, payload: bytes(1, 2), receivedAtMs: 10, droppedBefore: 0 });
    assert.deepEqual(buffer.take(), { seqId: 2, payload: bytes(3), receivedAtMs: 11, droppedBefore: 0 });
    assert.equal(buffer.take(), undefined);
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

  it('drops the oldest when its bytes are full, and gives the next caller their number', () => {
    const buffer = new PacketBuffer(0, { maxBytes: 4, maxPackets: 100 });
    assert.deepEqual(buffer.add(bytes(1, 1), 1), { packets: 0, bytes: 0 });
    assert.deepEqual(buffer.add(bytes(2, 2), 2), { packets: 0, bytes: 0 });
    assert.deepEqual(buffer.add(bytes(3, 3, 3), 3), { packets: 2, bytes: 4 });
    assert.deepEqual(buffer.take(), { seqId: 3, payload: bytes(3, 3, 3), receivedAtMs: 3, droppedBefore: 2 });
    buffer.add(bytes(4), 4);
    assert.equal(buffer.take()?.droppedBefore, 0);
  });

  it('drops the oldest when its packets are too many: one-byte packets cost more memory than their bytes', () => {
    const buffer = new PacketBuffer(1, { maxBytes: 1_000, maxPackets: 3 });
    assert.deepEqual(buffer.add(bytes(1, 2, 3, 4, 5), 1), { packets: 2, bytes: 2 });
    assert.equal(buffer.packets, 3);
    assert.deepEqual(buffer.take(), { seqId: 3, payload: Uint8Array.of(3), receivedAtMs: 1, droppedBefore: 2 });
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

const step = fc.oneof(
  fc.record({ push: fc.uint8Array({ maxLength: 9_000 }) }),
  fc.constant({ take: true } as const),
  fc.constant({ drop: true } as const),
);

describe('the ring of packets', () => {
  it('gives back what went in, in order, whatever its limits and wherever its end falls', () => {
    fc.assert(
      fc.property(
        fc.array(step, { maxLength: 300 }),
        fc.integer({ min: 1, max: 20_000 }),
        fc.integer({ min: 1, max: 100 }),
        (steps, maxBytes, maxPackets) => {
          const ring = new PacketRing({ maxBytes, maxPackets });
          const model: { payload: Uint8Array; receivedAtMs: number }[] = [];
          let at = 0;
          for (const one of steps) {
            if ('push' in one) {
              const used = model.reduce((sum, { payload }) => sum + payload.length, 0);
              assert.equal(ring.fits(one.push.length), used + one.push.length <= maxBytes && model.length < maxPackets);
              if (!ring.fits(one.push.length)) continue;
              ring.push(one.push, ++at);
              model.push({ payload: Uint8Array.from(one.push), receivedAtMs: at });
            } else if ('take' in one) assert.deepEqual(ring.take(), model.shift());
            else assert.equal(ring.drop(), model.shift()?.payload.length);
            assert.equal(ring.packets, model.length);
            assert.equal(
              ring.bytes,
              model.reduce((sum, { payload }) => sum + payload.length, 0),
            );
          }
          for (let left = model.shift(); left !== undefined; left = model.shift()) assert.deepEqual(ring.take(), left);
          assert.equal(ring.take(), undefined);
        },
      ),
    );
  });
});
