import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { CHUNK_BYTES, ChunkCutter, defaultGapMs } from './chunks.ts';

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);

describe('the silence that ends a chunk', () => {
  const table: [baudRate: number, dataBits: 5 | 6 | 7 | 8, parity: 0 | 1, stopBits: 0 | 1 | 2, ms: number][] = [
    [300, 8, 0, 0, (3.5 * 10 * 1000) / 300],
    [9600, 8, 1, 0, (3.5 * 11 * 1000) / 9600],
    [1200, 8, 1, 2, (3.5 * 12 * 1000) / 1200],
    [50, 5, 0, 1, (3.5 * 7.5 * 1000) / 50],
    [115_200, 8, 0, 0, 2],
    [12_000_000, 8, 0, 0, 2],
  ];
  for (const [baudRate, dataBits, parity, stopBits, ms] of table)
    it(`is ${ms.toFixed(2)} ms at ${baudRate} baud`, () =>
      assert.equal(defaultGapMs({ baudRate, dataBits, parity, stopBits }), ms));
});

describe('chunks', () => {
  it('gathers bytes until silence and stamps them with the arrival of the first', () => {
    const cutter = new ChunkCutter(2);
    assert.deepEqual(cutter.feed(bytes(1), 1_000, 10), []);
    assert.deepEqual(cutter.feed(bytes(2, 3), 1_001, 11), []);
    assert.equal(cutter.dueInMs(12), 1);
    assert.deepEqual(cutter.silence(), [{ data: Buffer.from([1, 2, 3]), atMs: 1_000, monoMs: 10 }]);
    assert.equal(cutter.dueInMs(13), undefined);
    assert.deepEqual(cutter.silence(), []);
  });

  it('ends a chunk by silence also when the timer comes late', () => {
    const cutter = new ChunkCutter(2);
    cutter.feed(bytes(1), 1_000, 10);
    assert.deepEqual(cutter.feed(bytes(2), 1_005, 15), [{ data: Buffer.from([1]), atMs: 1_000, monoMs: 10 }]);
    assert.deepEqual(cutter.silence(), [{ data: Buffer.from([2]), atMs: 1_005, monoMs: 15 }]);
  });

  it('measures silence by the monotonic clock: a wall clock that jumps back by years cuts nothing', () => {
    const cutter = new ChunkCutter(2);
    cutter.feed(bytes(1), 1_700_000_000_000, 10);
    assert.deepEqual(cutter.feed(bytes(2), 1_000, 11), []);
    assert.deepEqual(cutter.silence(), [{ data: Buffer.from([1, 2]), atMs: 1_700_000_000_000, monoMs: 10 }]);
  });

  it('makes every read a chunk when the gap is 0', () => {
    const cutter = new ChunkCutter(0);
    assert.deepEqual(cutter.feed(bytes(1), 5, 1), [{ data: bytes(1), atMs: 5, monoMs: 1 }]);
    assert.equal(cutter.dueInMs(1), undefined);
  });

  it('looks for silence at once in a young chunk, and less often in one that grows long', () => {
    const cutter = new ChunkCutter(2);
    assert.equal(cutter.lookInMs(0), undefined);
    cutter.feed(bytes(1), 1_000, 0);
    assert.equal(cutter.lookInMs(0), 2);
    for (let at = 1; at <= 40; at += 1) cutter.feed(bytes(1), 1_000, at);
    assert.equal(cutter.dueInMs(40), 2);
    assert.equal(cutter.lookInMs(40), 10);
    for (let at = 41; at <= 300; at += 1) cutter.feed(bytes(1), 1_000, at);
    assert.equal(cutter.lookInMs(300), 20);
  });

  it('keeps every byte in order, in chunks of 4,096 bytes at most that are full unless silence ended them', () => {
    const reads = fc.array(
      fc.record({ size: fc.integer({ min: 1, max: 9_000 }), waitMs: fc.integer({ min: 0, max: 4 }) }),
    );
    fc.assert(
      fc.property(reads, (list) => {
        const cutter = new ChunkCutter(2);
        let at = 0;
        let next = 0;
        const sent: number[] = [];
        const chunks: { data: Uint8Array }[] = [];
        let silences = 0;
        for (const read of list) {
          at += read.waitMs;
          if (read.waitMs >= 2) silences += 1;
          const data = Uint8Array.from({ length: read.size }, () => next++ % 251);
          sent.push(...data);
          chunks.push(...cutter.feed(data, at, at));
        }
        chunks.push(...cutter.silence());
        assert.deepEqual(Buffer.concat(chunks.map((c) => c.data)), Buffer.from(sent));
        assert.ok(chunks.every((c) => c.data.length >= 1 && c.data.length <= CHUNK_BYTES));
        const short = chunks.filter((c) => c.data.length < CHUNK_BYTES).length;
        assert.ok(short <= silences + 1);
      }),
      { numRuns: 60 },
    );
  });
});
