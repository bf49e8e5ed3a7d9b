import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { columns, MINUTES_OF_ROW, type Minutes, noMinutes, packMinutes, unpackMinutes } from './minutes.ts';

const someMinutes = fc.integer({ min: 0, max: MINUTES_OF_ROW }).chain((length) => {
  const value = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 70_000 }), fc.integer({ min: 0, max: 2 ** 51 }));
  const column = fc.array(value, { minLength: length, maxLength: length });
  return fc.record(Object.fromEntries(columns.map((name) => [name, column]))) as unknown as fc.Arbitrary<Minutes>;
});

test('minutes are read as they were written, whatever their numbers', () => {
  fc.assert(
    fc.property(someMinutes, (minutes) => {
      assert.deepEqual({ ...unpackMinutes(packMinutes(minutes)) }, { ...minutes });
    }),
  );
});

test('an hour in which nothing changes takes three or four bytes for each column', () => {
  const minutes = noMinutes();
  for (const name of columns) minutes[name].push(...Array<number>(MINUTES_OF_ROW).fill(name === 'upS' ? 60 : 0));
  assert.ok(packMinutes(minutes).length <= 4 * columns.length, String(packMinutes(minutes).length));
});

test('bytes of anybody else are refused with a RangeError, and never more than an hour is made of them', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      try {
        for (const name of columns) assert.ok(unpackMinutes(bytes)[name].length <= MINUTES_OF_ROW);
      } catch (error) {
        assert.ok(error instanceof RangeError, String(error));
      }
    }),
  );
  const written = packMinutes({ ...noMinutes(), upS: [60, 7], rxBytes: [1, 500] });
  assert.throws(() => unpackMinutes(written.subarray(0, 3)), RangeError);
});

test('a row of an earlier version, which has fewer columns, reads as 0 in the others', () => {
  const minutes = noMinutes();
  for (const name of columns) minutes[name].push(9, 9);
  const [first, second] = columns;
  // Two columns of "9, then no change".
  const bytes = packMinutes(minutes).subarray(0, 2 + 2 * 3);
  const read = unpackMinutes(bytes);
  assert.deepEqual(
    [read[first], read[second], read.cardWrittenBytesPlus1],
    [
      [9, 9],
      [9, 9],
      [0, 0],
    ],
  );
});
