import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { lineside } from '../../shared/proto/services.ts';
import type { KernelCounters, LineError } from './line.ts';
import { isMarked, LineErrorDecoder } from './line-errors.ts';

const { PARITY_OR_FRAMING, PARITY, FRAMING, BREAK, OVERRUN } = lineside.v1.LineError.Fault;
const none: KernelCounters = { rx: 0, tx: 0, frame: 0, overrun: 0, parity: 0, brk: 0, bufOverrun: 0 };

/** What is read in one piece, with counters that have moved by so much meanwhile; and what comes of it. */
function decoded(read: readonly number[], moved: Partial<KernelCounters> | undefined) {
  let counters = moved && none;
  const decoder = new LineErrorDecoder(() => counters);
  counters = moved && { ...none, ...moved };
  const { bytes, errors } = decoder.decode(Uint8Array.from(read));
  return { bytes: [...bytes], errors };
}

test('bytes without a mark are handed on as they are', () => {
  const read = Uint8Array.of(1, 0, 254);
  assert.equal(new LineErrorDecoder(() => undefined).decode(read).bytes, read);
});

const cases: readonly [string, number[], Partial<KernelCounters> | undefined, number[], LineError[]][] = [
  ['the byte FF', [1, 255, 255, 2], undefined, [1, 255, 2], []],
  ['an error without counters', [1, 255, 0, 7], undefined, [1, 7], [{ kind: PARITY_OR_FRAMING, offset: 1, count: 1 }]],
  ['an error at FF', [255, 0, 255, 255, 255], { parity: 1 }, [255, 255], [{ kind: PARITY, offset: 0, count: 1 }]],
  ['framing', [1, 255, 0, 7], { frame: 1 }, [1, 7], [{ kind: FRAMING, offset: 1, count: 1 }]],
  ['both', [255, 0, 7], { frame: 1, parity: 1 }, [7], [{ kind: PARITY_OR_FRAMING, offset: 0, count: 1 }]],
  ['a break', [255, 0, 0], undefined, [0], [{ kind: BREAK, offset: 0, count: 1 }]],
  [
    'a break after an error',
    [255, 0, 7, 255, 0, 0],
    { brk: 1, parity: 1 },
    [7, 0],
    [
      { kind: PARITY, offset: 0, count: 1 },
      { kind: BREAK, offset: 1, count: 1 },
    ],
  ],
  ['a NUL with wrong parity', [255, 0, 0], { parity: 1 }, [0], [{ kind: PARITY, offset: 0, count: 1 }]],
  [
    'neighbours',
    [255, 0, 1, 255, 0, 2, 3, 255, 0, 4],
    { frame: 3 },
    [1, 2, 3, 4],
    [
      { kind: FRAMING, offset: 0, count: 2 },
      { kind: FRAMING, offset: 3, count: 1 },
    ],
  ],
  ['an overrun', [1], { overrun: 2, bufOverrun: 1 }, [1], [{ kind: OVERRUN, offset: 0, count: 3 }]],
  ['FF that is no mark', [255, 1], undefined, [255, 1], []],
];
for (const [what, read, moved, bytes, errors] of cases)
  test(`${what}: its place and kind`, () => assert.deepEqual(decoded(read, moved), { bytes, errors }));

test('the driver counts ahead: an error that is read later has the kind that was counted last', () => {
  let counters = none;
  const decoder = new LineErrorDecoder(() => counters);
  counters = { ...none, parity: 2 };
  decoder.decode(Uint8Array.of(255, 0, 1));
  assert.deepEqual(decoder.decode(Uint8Array.of(255, 0, 2)).errors, [{ kind: PARITY, offset: 0, count: 1 }]);
});

test('counters wrap', () => {
  let counters = { ...none, overrun: 0xffffffff };
  const decoder = new LineErrorDecoder(() => counters);
  counters = { ...none, overrun: 1 };
  assert.equal(decoder.decode(Uint8Array.of(1)).errors[0]?.count, 2);
});

/** What the kernel makes of characters (n_tty), and how it is cut into reads. */
const character = fc.record({
  byte: fc.oneof(fc.constantFrom(0, 255), fc.nat(255)),
  bad: fc.boolean(),
});
test('however the marked bytes are cut, every byte and every error comes at its place', () => {
  fc.assert(
    fc.property(fc.array(character), fc.array(fc.nat(4)), (characters, cuts) => {
      const marked = characters.flatMap(({ byte, bad }) => (bad ? [255, 0, byte] : byte === 255 ? [255, 255] : [byte]));
      assert.ok(isMarked(Uint8Array.from(marked)));
      const decoder = new LineErrorDecoder(() => undefined);
      const bytes: number[] = [];
      const bad: number[] = [];
      for (let at = 0, n = 0; at < marked.length; n++) {
        const to = at + 1 + (cuts[n] ?? 7);
        const part = decoder.decode(Uint8Array.from(marked.slice(at, to)));
        for (const { offset, count } of part.errors)
          for (let i = 0; i < count; i++) bad.push(bytes.length + offset + i);
        bytes.push(...part.bytes);
        at = to;
      }
      assert.deepEqual(
        bytes,
        characters.map(({ byte }) => byte),
      );
      assert.deepEqual(
        bad,
        characters.flatMap((one, i) => (one.bad ? [i] : [])),
      );
    }),
  );
});

test('bytes that were read without marks are known by a single FF', () => {
  assert.equal(isMarked(Uint8Array.of(1, 2, 255, 3)), false);
  assert.equal(isMarked(Uint8Array.of(255, 255, 255)), false);
  assert.equal(isMarked(Uint8Array.of(1, 2, 3)), true);
});
