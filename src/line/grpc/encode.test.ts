import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import Long from 'long';
import { lineside, serial } from '../../shared/proto/services.ts';
import type { LogEntry, LogGap } from '../log/entry.ts';
import { encodeBatch, encodeEntry, fromU64, sessionResponse, u64 } from './encode.ts';

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
  clock: fc.constantFrom(undefined, 'known', 'notSet', 'corrected'),
  uncorrectedMs: fc.option(fc.maxSafeNat(), { nil: undefined }),
});
/** Their numbers in lineside.proto are their places. */
const clocks: readonly LogEntry['clock'][] = [undefined, 'known', 'notSet', 'corrected'];

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
  const [entry] = fc.sample(entries, 1) as [LogEntry];
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
        const piece = { entries: list, gaps: gaps ? [gap] : [], nextAfterId: next, bootId: id };
        const bytes = encodeBatch(piece, id, false);
        for (const batch of [
          lineside.v1.LogBatch.decode(bytes),
          lineside.v1.SessionResponse.decode(sessionResponse('log', bytes)).log,
        ]) {
          assert.deepEqual(
            batch?.entries.map((got) => [Number(got.id), got.clock, Number(got.uncorrectedTimestampMs)]),
            list.map((entry) => [entry.id, clocks.indexOf(entry.clock), entry.uncorrectedMs ?? 0]),
          );
          for (const [i, entry] of list.entries()) sameEntry(batch?.entries[i]?.entry, entry);
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
