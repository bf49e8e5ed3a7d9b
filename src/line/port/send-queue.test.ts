import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { SendQueue } from './send-queue.ts';

const item = (caller: string, id: number, size = 1) => ({ caller, id, payload: new Uint8Array(size) });
const roomy = { maxPackets: 1_000, maxBytes: 1 << 20 };

describe('the send queue', () => {
  it('lets callers take turns: one who floods delays another by one packet', () => {
    const queue = new SendQueue<ReturnType<typeof item>>(roomy);
    for (let id = 0; id < 5; id += 1) queue.push(item('flood', id));
    queue.push(item('calm', 10));
    queue.push(item('calm', 11));
    assert.deepEqual(
      queue.drain().map((i) => `${i.caller} ${i.id}`),
      ['flood 0', 'calm 10', 'flood 1', 'calm 11', 'flood 2', 'flood 3', 'flood 4'],
    );
  });

  it('is bounded in packets and in bytes, but an empty one takes any packet', () => {
    const byPackets = new SendQueue<ReturnType<typeof item>>({ maxPackets: 2, maxBytes: 100 });
    assert.deepEqual(
      [1, 2, 3].map((id) => byPackets.push(item('a', id))),
      [true, true, false],
    );
    const byBytes = new SendQueue<ReturnType<typeof item>>({ maxPackets: 10, maxBytes: 10 });
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
        const queue = new SendQueue<ReturnType<typeof item>>(roomy);
        const waiting: ReturnType<typeof item>[] = [];
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
