import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PacketRing } from './packet-ring.ts';

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
