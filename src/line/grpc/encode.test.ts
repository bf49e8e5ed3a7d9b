import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import Long from 'long';
import { lineside, serial } from '../../shared/proto/services.ts';
import type { LogEntry, LogGap } from '../log/entry.ts';
import { pieces } from './batches.ts';
import { encodeBatch, encodeEntry, fromU64, sessionResponse, u64 } from './encode.ts';
import { BATCH_ENTRIES } from './limits.ts';

const timestamps = fc.oneof(
  fc.nat(),
  fc.maxSafeNat(),
  fc.constantFrom(0, 127, 128, 2 ** 32, Number.MAX_SAFE_INTEGER),
  fc.bigInt(2n ** 53n, 2n ** 64n - 1n),
);
const entries: fc.Arbitrary<LogEntry> = fc.record({
  id: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
  dir: fc.constantFrom(0 as const, 1 as const),
  timestampMs: timestamps,
  data: fc.uint8Array({ maxLength: 300 }),
  note: fc.string({ unit: 'grapheme', maxLength: 60 }),
});

function sameEntry(got: serial.SerialLogEntry.$Properties | null | undefined, entry: LogEntry): void {
  assert.equal(got?.dir, entry.dir);
  assert.equal(String(got?.timestamp), String(entry.timestampMs));
  assert.deepEqual([...(got?.rawData ?? [])], [...entry.data]);
  assert.equal(got?.note, entry.note.toWellFormed());
}

test('an entry written by hand is what the generated code reads', () => {
  fc.assert(
    fc.property(entries, fc.boolean(), (entry, shared) => {
      sameEntry(serial.SerialLogEntry.decode(encodeEntry(entry, shared)), entry);
    }),
  );
});

test('an entry for many subscribers is encoded once', () => {
  const entry: LogEntry = { id: 1, dir: 1, timestampMs: 5, data: Buffer.from('x'), note: '' };
  assert.equal(encodeEntry(entry, true), encodeEntry(entry, true));
  assert.notEqual(encodeEntry(entry, false), encodeEntry(entry, true));
});

const gap: LogGap = { firstId: 3, lastId: 4, entries: 2, bytes: 9, fromMs: 1, toMs: 2, reason: 'disk full' };

test('a batch written by hand is what the generated code reads, also inside a session', () => {
  fc.assert(
    fc.property(
      fc.array(entries, { maxLength: 5 }),
      fc.boolean(),
      fc.string(),
      fc.maxSafeNat(),
      (list, gaps, id, next) => {
        const encoded = list.map((entry) => ({ id: entry.id, bytes: encodeEntry(entry, false) }));
        const bytes = encodeBatch({
          entries: encoded,
          gaps: gaps ? [gap] : [],
          logId: id,
          nextAfterId: next,
          bootId: id,
        });
        for (const batch of [
          lineside.v1.LogBatch.decode(bytes),
          lineside.v1.SessionResponse.decode(sessionResponse('log', bytes)).log,
        ]) {
          assert.deepEqual(
            batch?.entries.map((entry) => Number(entry.id)),
            list.map((entry) => entry.id),
          );
          list.forEach((entry, i) => {
            sameEntry(batch?.entries[i]?.entry, entry);
          });
          assert.equal(batch?.logId, id.toWellFormed());
          assert.equal(Number(batch?.nextAfterId), next);
          assert.equal(batch?.bootId, id.toWellFormed());
          assert.deepEqual(
            batch?.gaps.map((got) => [Number(got.firstId), Number(got.lastId), got.reason]),
            gaps ? [[3, 4, 'disk full']] : [],
          );
        }
      },
    ),
    { numRuns: 50 },
  );
});

test('64-bit numbers go both ways unharmed', () => {
  for (const text of ['0', '9007199254740991', '9007199254740992', '18446744073709551615']) {
    const value = fromU64(Long.fromString(text, true));
    assert.equal(typeof value, text.length < 16 || text.endsWith('0991') ? 'number' : 'bigint');
    assert.equal(u64(value).toString(), text);
  }
});

test('runs are cut at the limits, each gap with the entries it lies between', () => {
  const make = (id: number, bytes: number): LogEntry => ({
    id,
    dir: 1,
    timestampMs: 1,
    data: new Uint8Array(bytes),
    note: '',
  });
  const many = Array.from({ length: BATCH_ENTRIES * 2 + 1 }, (_, i) => make(i + 10, 1));
  const lost = [3, BATCH_ENTRIES + 15, 5_000].map((firstId) => ({ ...gap, firstId }));
  const cut = [...pieces({ entries: many, gaps: lost, nextAfterId: 9_999, live: true }, () => 'boot')];
  assert.deepEqual(
    cut.map((piece) => piece.entries.length),
    [BATCH_ENTRIES, BATCH_ENTRIES, 1],
  );
  assert.deepEqual(
    cut.map((piece) => piece.gaps.map((g) => g.firstId)),
    [[3], [BATCH_ENTRIES + 15], [5_000]],
  );
  assert.deepEqual(
    cut.map((piece) => piece.nextAfterId),
    [BATCH_ENTRIES + 9, 2 * BATCH_ENTRIES + 9, 9_999],
  );
  const large = [make(1, 1), make(2, 1_048_576), make(3, 1)];
  assert.deepEqual(
    [...pieces({ entries: large, gaps: [], nextAfterId: 3, live: true }, () => 'boot')].map((p) => p.entries.length),
    [1, 1, 1],
  );
  const nothing = { entries: [], gaps: [], nextAfterId: 7, live: true };
  assert.deepEqual([...pieces(nothing, () => 'boot')], [{ entries: [], gaps: [], nextAfterId: 7, bootId: '' }]);
  const boots = [
    ...pieces({ entries: many, gaps: [], nextAfterId: 9_999, live: true }, (id) => (id < 100 ? 'one' : 'two')),
  ];
  assert.deepEqual(
    boots.map((piece) => [piece.bootId, piece.entries.length, piece.nextAfterId]),
    [
      ['one', 90, 99],
      ['two', BATCH_ENTRIES, BATCH_ENTRIES + 99],
      ['two', BATCH_ENTRIES + 1 - 90, 9_999],
    ],
  );
});
