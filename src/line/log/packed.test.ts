import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { columnsOf, isSound } from '../../shared/base/log-block.ts';
import type { LogEntry } from './entry.ts';
import { maxBlockBytes, maxBlockEntries, pack, unpack } from './packed.ts';

const uint64 = fc.oneof(fc.maxSafeNat(), fc.bigInt({ min: 2n ** 53n, max: 2n ** 64n - 1n }));

const entries = fc
  .array(
    fc.record({
      dir: fc.constantFrom(0 as const, 1 as const),
      timestampMs: uint64,
      data: fc.uint8Array({ maxLength: 300 }),
      note: fc.string({ unit: 'grapheme', maxLength: 20 }),
      step: fc.oneof(
        { weight: 9, arbitrary: fc.constant(1) },
        { weight: 1, arbitrary: fc.integer({ min: 2, max: 99 }) },
      ),
    }),
    { maxLength: 50 },
  )
  .map((list) => {
    let id = 0;
    return list.map(({ step, ...entry }) => ({ ...entry, id: (id += step) }));
  });

test('packed entries are unpacked unchanged, ids with holes included', () => {
  fc.assert(
    fc.property(entries, (list) => {
      const batch = pack(list);
      for (const block of batch.blocks) assert.ok(isSound(columnsOf(batch.buffer, block)));
      const back = unpack(batch, { after: 0, upTo: Number.POSITIVE_INFINITY });
      const plain = (entries: readonly LogEntry[]) => entries.map((entry) => ({ ...entry, data: [...entry.data] }));
      // A number comes back as a number, a bigint as a bigint.
      assert.deepEqual(plain(back), plain(list));
    }),
  );
});

test('a part of a batch is its entries after one id up to another', () => {
  fc.assert(
    fc.property(entries, fc.nat(100), fc.nat(100), (list, after, upTo) => {
      assert.deepEqual(
        unpack(pack(list), { after, upTo }).map(({ id }) => id),
        list.map(({ id }) => id).filter((id) => id > after && id <= upTo),
      );
    }),
  );
});

test('blocks stay within their limits, but for an entry that is larger than a block', () => {
  const entry = (id: number, bytes: number) => ({
    id,
    dir: 1 as const,
    timestampMs: 1,
    data: new Uint8Array(bytes),
    note: '',
  });
  const small = pack(Array.from({ length: 2_500 }, (_, i) => entry(i + 1, 1)));
  assert.deepEqual(
    small.blocks.map(({ count }) => count),
    [maxBlockEntries, maxBlockEntries, 500],
  );
  const large = pack([entry(1, 10), entry(2, 1024 * 1024), entry(3, 10)]);
  assert.deepEqual(
    large.blocks.map(({ count }) => count),
    [1, 1, 1],
  );
  for (const { length } of pack(Array.from({ length: 100 }, (_, i) => entry(i + 1, 4096))).blocks) {
    assert.ok(length <= maxBlockBytes);
  }
});
